"""Build what is published, and try it as somebody who has nothing but the file: `make wheel`.

The wheel and the source distribution go to dist/. The source distribution must give the same wheel again, and the wheel
must run the demo in an environment and a folder of its own.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: PyPI takes no larger file.
MAX_BYTES = 100_000_000


def main() -> None:
    """Build, compare, try; the first thing that does not hold ends it with a sentence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the two files go")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as scratch:
        builder = environment(Path(scratch) / "builder", "build", "twine")
        wheel, source = build(builder, out)
        again = from_source(builder, source, Path(scratch) / "again")
        check_sizes(wheel, source)
        check_same(wheel, again)
        call(builder, "-m", "twine", "check", "--strict", str(wheel), str(source))
        try_demo(wheel, Path(scratch))
    for path in (wheel, source):
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


def build(python: Path, out: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of this tree; what earlier builds left would end up in them, and goes."""
    for left in (out, ROOT / "build"):
        shutil.rmtree(left, ignore_errors=True)
    call(python, "-m", "build", "--sdist", "--wheel", "--outdir", str(out), str(ROOT))
    return only(out, "*.whl"), only(out, "*.tar.gz")


def from_source(python: Path, source: Path, folder: Path) -> Path:
    """The wheel that somebody builds who has the source distribution alone."""
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    call(python, "-m", "build", "--wheel", "--outdir", str(folder), str(only(folder, "*/")))
    return only(folder, "*.whl")


def try_demo(wheel: Path, scratch: Path) -> None:
    """The wheel in a fresh environment, its demo in a folder outside the clone. PyTorch first, as in the Makefile."""
    python = environment(scratch / "user", "torch")
    install(python, f"{wheel}[demo]")
    elsewhere = scratch / "elsewhere"
    elsewhere.mkdir()
    call(python.with_name("dgpnet"), "demo", "--out", "demo", cwd=elsewhere)
    if not (elsewhere / "demo" / "demo.png").is_file():
        sys.exit("The demo left no picture.")


def check_sizes(*paths: Path) -> None:
    for path in paths:
        if path.stat().st_size > MAX_BYTES:
            sys.exit(f"{path.name} has {path.stat().st_size:,} bytes, and PyPI takes at most {MAX_BYTES:,}.")


def check_same(wheel: Path, other: Path) -> None:
    """Both wheels hold the same files with the same bytes."""
    ours, theirs = content(wheel), content(other)
    different = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    if different:
        sys.exit(f"{wheel.name} from the tree and from the source distribution differ in {', '.join(different[:5])}.")


def content(wheel: Path) -> dict[str, tuple[int, int]]:
    """(size, checksum) of every file in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: (entry.file_size, entry.CRC) for entry in archive.infolist()}


def environment(folder: Path, *requirements: str) -> Path:
    """The Python of a fresh environment with these packages."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    install(python, *requirements)
    return python


def install(python: Path, *requirements: str) -> None:
    constraints = str(ROOT / "constraints.txt")
    call(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, *requirements)


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def call(program: Path, *arguments: str, cwd: Path | None = None) -> None:
    """Run it without this tree's modules in its way."""
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run([str(program), *arguments], cwd=cwd, env=clean, check=False)
    if done.returncode:
        sys.exit(f"`{program.name} {' '.join(arguments)}` failed with exit code {done.returncode}.")


if __name__ == "__main__":
    main()
