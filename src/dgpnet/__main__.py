"""`python -m dgpnet` is the command `dgpnet`; both begin here, so that Ctrl-C is heeded while the rest is loaded."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def main() -> NoReturn:
    """Run this process's command line and leave with its exit code."""
    signal.signal(signal.SIGINT, _leave)
    from dgpnet.cli import run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done: a second Ctrl-C is not to litter the screen
    sys.exit(code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Nothing is begun yet, so there is nothing to tidy away."""
    os.write(2, b"dgpnet: interrupted; nothing is half-written.\n")
    os._exit(130)


if __name__ == "__main__":
    main()
