"""Commands that tests start as a person does, to interrupt them."""

import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.children import environment
from tests.tiny import tiny_checkpoint, write_photos, write_support

#: Seconds after which a command hangs: a machine that is busy with other tests needs many for what takes few.
PATIENCE = 300.0


def prepared(here: Path) -> Path:
    """A folder with painted/, photos/ (sixty) and a model."""
    write_support(here / "painted", 2)
    write_photos(here / "photos", 60)
    tiny_checkpoint(here / "tiny.safetensors")
    return here


def start(here: Path, *more: str, out: str = "found") -> subprocess.Popen[str]:
    words = ["segment", "painted", "photos", "--out", out, "--model", "tiny.safetensors", *more]

    def heed_interrupts() -> None:  # a suite that runs in the background may have inherited that they are ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return subprocess.Popen(
        [sys.executable, "-m", "dgpnet", *words],
        cwd=here,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )


def gone(session: int) -> bool:
    """Whether a session has no process any more, or soon has none."""
    for _ in range(300):
        listed = subprocess.run(["ps", "-o", "stat=", "-s", str(session)], capture_output=True, text=True).stdout
        if all(state.startswith("Z") for state in listed.split()):
            return True
        time.sleep(0.1)
    return False


def lines(here: Path) -> int:
    journal = here / "found" / ".dgpnet" / "done.jsonl"
    return len(journal.read_bytes().splitlines()) if journal.exists() else 0
