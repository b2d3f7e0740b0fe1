import os
import signal
import subprocess
import sys

import pytest

import dgpnet
from dgpnet import cli
from dgpnet.cli import COMMANDS, run
from dgpnet.cli import progress as progress_module
from dgpnet.cli.progress import progress
from dgpnet.errors import Error


def test_help_lists_every_command_with_an_example(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example: dgpnet segment" in shown
    for name, entry in COMMANDS.items():
        assert name in shown
        assert entry.summary in shown


def test_help_imports_neither_torch_nor_any_command():
    program = (
        "import sys; from dgpnet.cli import run; run(['--help']); "
        "print([m for m in sys.modules if m.split('.')[0] in ('torch', 'numpy', 'PIL') or m.startswith('dgpnet.cli.')])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["segment", "learn", "suggest"])
def test_each_command_has_help_with_an_example(capsys, name):
    assert run([name, "--help"]) == 0
    assert f"Example: dgpnet {name}" in capsys.readouterr().out


def test_the_version_is_told(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.strip() == dgpnet.__version__


@pytest.mark.parametrize(
    "words", [["segmen"], ["segment"], ["learn", "x"], ["segment", "a", "b", "--out", "c", "--nonsense"]]
)
def test_wrong_use_is_exit_code_2(capsys, words):
    assert run(words) == 2
    assert "Error" in capsys.readouterr().err


def fake_command(monkeypatch, error: BaseException) -> None:
    """Let `dgpnet learn` raise."""
    module = type(sys)("dgpnet.cli.learn")

    def learn() -> None:
        raise error

    module.learn = learn
    monkeypatch.setattr(cli, "import_module", lambda name: module)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (Error("The mask is empty; paint it."), 2, "dgpnet: The mask is empty; paint it.\n"),
        (PermissionError(13, "Permission denied", "/out/a"), 1, "dgpnet: /out/a: Permission denied.\n"),
        (ModuleNotFoundError("No module named 'skimage'", name="skimage"), 2, "pip install 'dgpnet'"),
    ],
)
def test_what_goes_wrong_is_one_line_on_stderr(monkeypatch, capsys, error, code, says):
    fake_command(monkeypatch, error)
    assert run(["learn"]) == code
    caught = capsys.readouterr()
    assert says in caught.err
    assert caught.err.count("\n") == 1
    assert caught.out == ""


def test_an_interrupt_is_130(monkeypatch, capsys):
    fake_command(monkeypatch, KeyboardInterrupt())
    assert run(["learn"]) == 130
    assert "nothing is half-written" in capsys.readouterr().err


def test_an_interrupt_while_a_command_is_loaded_is_130_too(monkeypatch, capsys):
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "import_module", interrupted)
    assert run(["learn"]) == 130
    assert capsys.readouterr().err == "dgpnet: interrupted; nothing is half-written.\n"


@pytest.mark.parametrize("module", ["typer", "torch"])
def test_an_interrupt_while_the_program_is_loaded_is_one_line(tmp_path, module):
    (tmp_path / f"{module}.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\n")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").touch()
    words = [sys.executable, "-m", "dgpnet", "suggest", str(tmp_path / "photos")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}

    def heed_interrupts() -> None:  # a suite that runs in the background may have inherited that they are ignored
        signal.signal(signal.SIGINT, signal.default_int_handler)

    done = subprocess.run(
        words, env=environment, capture_output=True, text=True, check=False, preexec_fn=heed_interrupts
    )
    assert (done.returncode, done.stderr) == (130, "dgpnet: interrupted; nothing is half-written.\n")


def test_a_polite_kill_ends_like_an_interrupt(monkeypatch):
    module = type(sys)("dgpnet.cli.learn")
    module.learn = lambda: signal.raise_signal(signal.SIGTERM)
    monkeypatch.setattr(cli, "import_module", lambda name: module)
    before = signal.getsignal(signal.SIGTERM)
    assert run(["learn"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_mistake_of_the_program_keeps_its_traceback(monkeypatch):
    fake_command(monkeypatch, ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        run(["learn"])


def test_a_missing_extra_breaks_only_its_own_command(monkeypatch, capsys):
    real = cli.import_module

    def without_extra(name: str) -> object:
        if name == "dgpnet.cli.train":
            raise ModuleNotFoundError("No module named 'lightning_fabric'", name="lightning_fabric")
        return real(name)

    monkeypatch.setattr(cli, "import_module", without_extra)
    assert run(["train", "--help"]) == 2
    assert "pip install 'dgpnet[train]'" in capsys.readouterr().err
    assert run(["learn", "--help"]) == 0


def test_the_module_is_the_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dgpnet", "learn", str(tmp_path), "--out", "x"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("dgpnet: ")


def test_progress_on_a_pipe_is_plain_lines_and_ends_with_the_last(capsys):
    with progress("Segmenting") as advance:
        for i in range(1, 4):
            advance(i, 3)
    assert capsys.readouterr().err.startswith("Segmenting: 3 of 3")
    with progress("Fitting, seconds", rate=False) as advance:
        advance(60, 60)
    assert capsys.readouterr().err == "Fitting, seconds: 60 of 60\n"
    with progress("Segmenting", quiet=True) as advance:
        advance(3, 3)
    assert capsys.readouterr().err == ""


def test_progress_tells_how_quick_it_is_and_how_long_it_will_take(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: clock[0])
    with progress("Segmenting") as advance:
        for done in (500, 520, 540, 560):  # of which an earlier run had done nearly five hundred
            clock[0] += 10.0
            advance(done, 1000)
    assert capsys.readouterr().err.splitlines()[1:] == [
        "Segmenting: 520 of 1000 (2.0 a second, 4 min left)",
        "Segmenting: 540 of 1000 (2.0 a second, 4 min left)",
        "Segmenting: 560 of 1000 (2.0 a second, 4 min left)",
    ]


def test_progress_on_a_terminal_is_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("Segmenting") as advance:
        advance(1, 3)
        advance(3, 3)
    assert "3/3" in capsys.readouterr().err
