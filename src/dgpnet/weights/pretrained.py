"""A folder as the Hugging Face Hub wants it: the checkpoint, and a card that says what it is."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dgpnet.files import atomic, make_folder
from dgpnet.network.config import Config
from dgpnet.network.dgpnet import DGPNet
from dgpnet.weights import checkpoint, hub
from dgpnet.weights.describe import describe
from dgpnet.weights.state import halve


def save(
    folder: str | os.PathLike[str],
    network: DGPNet,
    *,
    provenance: Mapping[str, Any],
    calibration: Mapping[str, Any],
    name: str = "hf://OWNER/NAME",
) -> None:
    """Write model.safetensors, in half precision where that loses nothing, and README.md where there is none.

    name: where it will be found, for the card.
    """
    make_folder(folder)
    path, readme = Path(folder) / hub.FILE, Path(folder) / hub.CARD
    checkpoint.save(path, network, provenance=provenance, calibration=calibration, half=_is_half(network))
    if not readme.exists():
        with atomic(readme) as temporary:
            temporary.write_text(card(path, name), encoding="utf-8")


def card(path: Path, name: str) -> str:
    """A card for the checkpoint, from what it says of itself. It names no licence: that is for its owner to say."""
    about = describe(path)
    config = Config.from_json(json.dumps(about["config"]))
    return _CARD.format(
        name=name,
        encoder=config.encoder,
        parameters=f"{about['numbers'] / 1e6:.1f} M",
        megabytes=f"{about['bytes'] / 1e6:.0f} MB",
        size=config.size,
        config=json.dumps(about["config"], indent=2),
        provenance=json.dumps(about["provenance"], indent=2),
        temperature=f"{(about['calibration'] or {}).get('temperature', 1.0):.3g}",
    )


def _is_half(network: DGPNet) -> bool:
    """Whether the weights came from half precision: then they go back to it unchanged."""
    tensors = network.state_dict()
    return all(bool((value.to(tensors[key].dtype) == tensors[key]).all()) for key, value in halve(tensors).items())


_CARD = """\
---
library_name: dgpnet
pipeline_tag: image-segmentation
tags:
- few-shot
- segmentation
- gaussian-process
---

# A model for dgpnet

Paint a mask on a few photographs; it segments that thing in all the others, and says where it is unsure.

```python
import dgpnet

segmenter = dgpnet.load("{name}")
concept = segmenter.learn(photos, masks, classes=["mug"])
found = concept.segment(photo)
```

| | |
|---|---|
| network | DGPNet with {encoder}; {parameters} parameters, {megabytes}; photographs at {size}² |
| calibration | temperature {temperature}, with curves for pixels and scores, inside the file |
| file | safetensors with a digest that is checked when it is loaded; no code |

Made with:

```json
{provenance}
```

Configuration:

```json
{config}
```
"""
