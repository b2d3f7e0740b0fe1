"""Two jobs at once on one machine: how much longer each takes than alone, and how much of that the system takes.

Each job is a process of its own, as users start them: `python -m dgpnet.benchmark.together small 20 0`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

import torch

#: Seconds that jobs have to get ready before all of them begin.
READY = 12.0
#: Episodes of one pass of the whole network, and their supports: tensors of hundreds of MiB.
EPISODES, SHOTS = 4, 5


def measured(model: str, calls: int) -> dict[str, Any]:
    """Milliseconds of `segment` in one job alone and in each of two at once, and the system's share of the time that
    the lone one used its processors for."""
    (alone,) = _jobs(model, calls, 1)
    both = _jobs(model, calls, 2)
    each = statistics.mean(job["segment_ms"] for job in both)
    return {
        "model": model,
        "alone_ms": alone["segment_ms"],
        "together_ms": each,
        "ratio": each / alone["segment_ms"],
        "system_share": alone["system_s"] / (alone["system_s"] + alone["user_s"]),
    }


def _jobs(model: str, calls: int, count: int) -> list[dict[str, float]]:
    command = [sys.executable, "-m", "dgpnet.benchmark.together", model, str(calls), str(time.time() + READY)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    found = []
    for job in started:
        printed, _ = job.communicate()
        if job.returncode:
            raise RuntimeError(f"A job ended with {job.returncode}.")
        found.append(json.loads(printed))
    return found


def _job(model: str, calls: int, start: float) -> dict[str, float]:
    """What one process does: segment photographs one by one from `start` on, then pass whole episodes through the
    network."""
    import resource  # not on every system

    from dgpnet.benchmark.calls import rendered_photographs
    from dgpnet.segmenter import load

    segmenter = load(model, device="cpu")
    photos, masks = rendered_photographs()
    concept = segmenter.learn(photos[:2], masks[:2])
    concept.segment(photos[2])
    time.sleep(max(0.0, start - time.time()))
    times = []
    for i in range(calls):
        begin = time.perf_counter()
        concept.segment(photos[i % len(photos)])
        times.append(1e3 * (time.perf_counter() - begin))
    before = resource.getrusage(resource.RUSAGE_SELF)
    side = segmenter.network.config.size
    supports, queries = torch.randn(EPISODES, SHOTS, 3, side, side), torch.randn(EPISODES, 3, side, side)
    with torch.no_grad():
        for _ in range(3):
            segmenter.network(supports, (supports[:, :, 0] > 0).float(), queries)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "segment_ms": statistics.median(times),
        "user_s": after.ru_utime - before.ru_utime,
        "system_s": after.ru_stime - before.ru_stime,
    }


if __name__ == "__main__":
    print(json.dumps(_job(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
