"""What holds for the package as a whole: how quickly it imports, its house and its wheel."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import dgpnet


def python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def test_every_public_name_is_there() -> None:
    for name in dgpnet.__all__:
        assert getattr(dgpnet, name) is not None
    assert set(dgpnet.__all__) <= set(dir(dgpnet))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="dgpnet"):
        dgpnet.segmentor  # type: ignore[attr-defined]  # noqa: B018


def test_importing_is_quick_because_torch_waits() -> None:
    python("import sys, dgpnet; assert not {'torch', 'numpy', 'PIL'} & sys.modules.keys()")


def test_reading_photographs_does_without_torch() -> None:
    python("import sys, dgpnet.images; assert 'torch' not in sys.modules")


def test_the_segmenter_needs_no_extra() -> None:
    extras = "lightning_fabric tensorboard transformers gpytorch hypothesis skimage scipy matplotlib pycocotools"
    python(f"import sys, dgpnet; dgpnet.load; assert not set('{extras}'.split()) & sys.modules.keys()")


def test_rooms_import_only_rooms_above_them(repository: Path) -> None:
    lint = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    result = subprocess.run([sys.executable, "-c", lint], cwd=repository, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_readme_names_every_room(repository: Path) -> None:
    lint = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["importlinter"]
    rooms = next(contract["layers"] for contract in lint["contracts"] if contract["id"] == "house")
    rows = re.findall(r"^\| (`[^|]+) \|", (repository / "README.md").read_text(), re.MULTILINE)
    named = [name.rstrip("/") for row in rows for name in re.findall(r"`([\w/]+)`", row)]
    assert sorted(named) == sorted(rooms)


def test_the_core_stays_small(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    core = requirement_names(project["dependencies"])
    assert core == {"torch", "numpy", "pillow", "safetensors", "typer", "rich"}


def test_every_requirement_has_an_exact_version_in_the_constraints(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    wanted = [project["dependencies"], *project["optional-dependencies"].values()]
    lines = [line for line in (repository / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.]+", line) for line in lines)
    assert set().union(*map(requirement_names, wanted)) <= {line.split("==")[0] for line in lines}
    torch = next(line for line in lines if line.startswith("torch=="))
    assert torch in (repository / "Makefile").read_text()


def test_the_wheel_holds_the_package_and_nothing_else(repository: Path, tmp_path: Path) -> None:
    for path in (repository / "pyproject.toml", *repository.glob("*.md"), repository / "LICENSE"):
        shutil.copy(path, tmp_path)
    # A stand-in for the checkpoints, which are large.
    leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.safetensors")
    for folder in ("src", "research"):
        shutil.copytree(repository / folder, tmp_path / folder, ignore=leave_out)
    checkpoint = tmp_path / "src/dgpnet/weights/checkpoints/default.safetensors"
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_bytes(b"weights")
    build = "from setuptools.build_meta import build_wheel; build_wheel('wheel')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "wheel").glob("dgpnet-*-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry_points = archive.read(next(name for name in names if name.endswith("entry_points.txt"))).decode()
    wanted = {
        str(path.relative_to(tmp_path / "src")) for path in (tmp_path / "src/dgpnet").rglob("*") if path.is_file()
    }
    assert {"dgpnet/py.typed", str(checkpoint.relative_to(tmp_path / "src"))} <= wanted
    assert {name for name in names if ".dist-info/" not in name} == wanted
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "dgpnet = dgpnet.__main__:main" in entry_points


def test_no_file_is_tied_to_one_machine(repository: Path) -> None:
    """No path of the machine that it was written on."""
    tracked = subprocess.run(["git", "ls-files"], cwd=repository, capture_output=True, text=True, check=True).stdout
    strange = re.compile(rb"(?<![\w.])/(root|work|home|opt|Users)/\w")
    for name in tracked.split("\n"):
        path = repository / name
        if path.suffix in {".py", ".toml", ".md", ".txt", ".yaml", ".cff", ".json"} and path.exists():
            assert not strange.search(path.read_bytes()), name
