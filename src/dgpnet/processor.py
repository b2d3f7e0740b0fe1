"""What this machine's processor can do, found out where a crash harms nothing, and manners of this process on it.

Some virtual machines report instructions that end the process when they are used (AMX, for matrix products in
bfloat16). So what is reported is tried first in a child process: once for each machine, processor and version of
PyTorch. The answer is kept in the user's cache folder, and what is computed in never depends on a stopwatch.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

from dgpnet.errors import Error
from dgpnet.files import atomic, cache_folder

#: What the child runs: the operations that networks are made of, in bfloat16, and whether they are right.
PROGRAM = """
import torch
torch.manual_seed(0)
def near(found, expected):
    assert (found.float() - expected).abs().max() < 0.05 * expected.abs().max()
with torch.no_grad():
    for side in (16, 512):
        a, b = torch.randn(side, side), torch.randn(side, side)
        near(a.bfloat16() @ b.bfloat16(), a @ b)
        near(torch.bmm(a.bfloat16()[None], b.bfloat16()[None])[0], a @ b)
    x = torch.randn(1, 64, 48, 48).to(memory_format=torch.channels_last)
    for kernel, groups in ((1, 1), (3, 1), (3, 64)):
        w = torch.randn(64, 64 // groups, kernel, kernel)
        near(torch.conv2d(x.bfloat16(), w.bfloat16(), padding=kernel // 2, groups=groups),
             torch.conv2d(x, w, padding=kernel // 2, groups=groups))
"""
#: Seconds that the child may take; importing PyTorch takes most of them.
PATIENCE = 120
#: Settings of the libraries below PyTorch that change which instructions they use.
SETTINGS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")


#: Turns that a waiting OpenMP thread looks around before it sleeps. With the library's own number two jobs on two cores
#: are four to ten times slower than one; a thousand cost a lone job nothing that could be measured.
TURNS = 1000
#: Bytes of a block from which on malloc asks the system for it and gives it back at once, and of free memory from which
#: on it gives some back. With the usual ones (tens of MiB) an evaluation spent a third of its time in the system, which
#: cleared the same pages again and again.
LARGE_BLOCK, KEPT_FREE = 2**30, 2**31 - 1


def mind_manners() -> None:
    """Set how threads wait and how memory is kept, for a process in which PyTorch may not be loaded yet; whatever the
    user has set stays."""
    if not os.environ.keys() & {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"}:
        os.environ["GOMP_SPINCOUNT"] = str(TURNS)
    if not os.environ.keys() & {"MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"}:
        with suppress(OSError, AttributeError, TypeError):  # another system's, or another allocator
            mallopt = ctypes.CDLL(None).mallopt
            for number, value in ((-3, LARGE_BLOCK), (-1, KEPT_FREE)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
                mallopt(number, value)


def half_works() -> bool:
    """Whether a CPU's bfloat16 can be used at all: where the processor reports it, by trying; elsewhere PyTorch does
    it with other instructions, which is slow and safe."""
    return not _reports_half() or _kept()


def half_pays() -> bool:
    """Whether the processor computes in bfloat16 itself, which is then several times quicker than float32."""
    return _reports_half() and _kept()


def require_half() -> None:
    """An Error where bfloat16 on the CPU would end the process."""
    if not half_works():
        raise Error("This processor fails in bfloat16, though it reports it; compute in float32 here.")


def _reports_half() -> bool:
    """Whether the processor says that it has instructions for bfloat16."""
    import torch

    if platform.machine().lower() not in ("x86_64", "amd64", "x86"):
        supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
        return bool(supported and supported())
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(asked()) for name in names if (asked := getattr(torch.cpu, name, None)))


@cache
def _kept() -> bool:
    """Whether the child lives: from the cache folder, or by starting it and writing down what came of it."""
    place = cache_folder() / "processors.json"
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
        answer = known[_key()]
        if isinstance(answer, bool):
            return answer
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        pass
    answer = _lives()
    with suppress(OSError, Error):  # only a shortcut: the next process tries again
        _keep(place, answer)
    return answer


def _lives() -> bool:
    """Start the child and say so if it dies."""
    if not sys.executable or getattr(sys, "frozen", False):  # then it may not be Python that would start
        return False
    try:
        child = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM], stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE
        )
        ended = child.returncode
    except subprocess.TimeoutExpired:
        ended = None
    except OSError:
        return False
    if ended == 0:
        return True
    how = "hangs" if ended is None else f"dies by signal {-ended}" if ended < 0 else "gives wrong results"
    print(f"dgpnet: this processor reports bfloat16 and {how} when it is used; computing in float32.", file=sys.stderr)
    return False


def _keep(place: Path, answer: bool) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        known = {}
    known = known if isinstance(known, dict) else {}
    with atomic(place) as temporary:
        temporary.write_text(json.dumps({**known, _key(): answer}, indent=1), encoding="utf-8")


def _key() -> str:
    """Machine, processor, version of PyTorch and settings that the answer holds for."""
    import torch

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        processor = sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))})
    except OSError:
        processor = [platform.processor()]
    settings = [f"{name}={os.environ.get(name)}" for name in SETTINGS]
    described = [platform.node(), platform.machine(), *processor, str(torch.__version__), *settings]
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:32]
