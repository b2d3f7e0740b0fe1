"""Reading, converting and shipping weights."""

from dgpnet.weights import hub, pretrained
from dgpnet.weights.checkpoint import SHIPPED, checkpoint_path, fingerprint, load, read_metadata, save
from dgpnet.weights.encoder import LAYOUTS, EncoderWeights, load_encoder, read_encoder, save_encoder
from dgpnet.weights.state import load_state

__all__ = [
    "LAYOUTS",
    "SHIPPED",
    "EncoderWeights",
    "checkpoint_path",
    "fingerprint",
    "hub",
    "load",
    "load_encoder",
    "load_state",
    "pretrained",
    "read_encoder",
    "read_metadata",
    "save",
    "save_encoder",
]
