"""What somebody else needs to make a release: versions from tags, a wheel that its own sources give again."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import dgpnet
from tools import wheel


def python(*arguments: str, cwd: Path | None = None, **environment: str) -> str:
    command, everywhere = [sys.executable, *arguments], os.environ | environment
    return subprocess.run(command, cwd=cwd, env=everywhere, capture_output=True, text=True, check=True).stdout.strip()


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def clone(repository: Path, tmp_path: Path) -> Path:
    """A repository of one commit with this project's settings."""
    pytest.importorskip("setuptools_scm")
    (tmp_path / "pyproject.toml").write_bytes((repository / "pyproject.toml").read_bytes())
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "pyproject.toml")
    git(tmp_path, "commit", "--quiet", "-m", "Everything")
    return tmp_path


def version_of(folder: Path) -> str:
    return python("-m", "setuptools_scm", cwd=folder)


def test_a_tag_is_the_version(clone: Path) -> None:
    git(clone, "tag", "v1.2.3")
    assert version_of(clone) == "1.2.3"
    git(clone, "commit", "--allow-empty", "-m", "More")
    assert re.fullmatch(r"1\.2\.4\.dev1\+g\w+", version_of(clone))


def test_a_clone_without_tags_has_a_version(clone: Path) -> None:
    assert re.fullmatch(r"0\.1\.0\.dev1\+g\w+", version_of(clone))


def test_the_package_knows_the_version_that_was_installed() -> None:
    assert dgpnet.__version__ == metadata.version("dgpnet")


def test_a_package_that_was_not_installed_says_so(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "dgpnet").symlink_to(repository / "src/dgpnet")
    say = "import dgpnet; print(dgpnet.__version__)"
    assert python("-S", "-c", say, PYTHONPATH=str(tmp_path)) == "0+unknown"


def archive(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as written:
        for name, text in files.items():
            written.writestr(name, text)
    return path


def test_wheels_are_the_same_whatever_their_dates(tmp_path: Path) -> None:
    wheel.check_same(archive(tmp_path / "a.whl", x="1", y="2"), archive(tmp_path / "b.whl", y="2", x="1"))


@pytest.mark.parametrize("other", [{"x": "1"}, {"x": "1", "y": "3"}, {"x": "1", "y": "2", "z": "3"}])
def test_wheels_that_differ_are_refused(tmp_path: Path, other: dict[str, str]) -> None:
    with pytest.raises(SystemExit, match=r"differ in [yz]\."):
        wheel.check_same(archive(tmp_path / "a.whl", x="1", y="2"), archive(tmp_path / "b.whl", **other))


def test_a_file_that_pypi_would_not_take_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large.whl").open("wb") as file:
        file.truncate(wheel.MAX_BYTES)
        wheel.check_sizes(tmp_path / "large.whl")
        file.truncate(wheel.MAX_BYTES + 1)
    with pytest.raises(SystemExit, match="100,000,001 bytes"):
        wheel.check_sizes(tmp_path / "large.whl")


def test_the_workflow_runs_the_tests_on_every_python_that_is_promised(repository: Path) -> None:
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    promised = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r"Python :: 3\.", name)]
    job = yaml.safe_load((repository / ".github/workflows/test.yml").read_text())["jobs"]["test"]
    assert job["strategy"]["matrix"]["python"] == promised
    assert project["requires-python"] == f">={promised[0]}"
    assert "make test PYTHON=python" in [step.get("run") for step in job["steps"]]


def test_the_workflow_takes_the_actions_that_were_read(repository: Path) -> None:
    """By commit: a tag can be moved."""
    uses = re.findall(r"uses: (\S+)", (repository / ".github/workflows/test.yml").read_text())
    assert uses and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in uses)


def test_the_container_is_given_what_it_copies(repository: Path) -> None:
    text = (repository / "Dockerfile").read_text()
    copied = {name for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE) for name in line.split()}
    allowed = set(re.findall(r"^!(\S+)$", (repository / ".dockerignore").read_text(), re.MULTILINE))
    assert copied == allowed
    assert all((repository / name).exists() for name in copied)
    assert text.rindex("USER dgpnet") < text.index("ENTRYPOINT")


@pytest.mark.slow
def test_the_sources_give_the_same_wheel_again(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("setuptools_scm")
    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    build = "import sys; from setuptools import build_meta; getattr(build_meta, sys.argv[1])(sys.argv[2])"
    for kind in ("build_wheel", "build_sdist"):
        python("-c", build, kind, str(tmp_path), cwd=tmp_path / "clone")
    with tarfile.open(wheel.only(tmp_path, "*.tar.gz")) as sources:
        sources.extractall(tmp_path / "sources", filter="data")
    python("-c", build, "build_wheel", str(tmp_path / "again"), cwd=wheel.only(tmp_path / "sources", "*/"))
    first, again = wheel.only(tmp_path, "*.whl"), wheel.only(tmp_path / "again", "*.whl")
    wheel.check_sizes(first)
    wheel.check_same(first, again)
