"""Fifty clients for two minutes, bad requests among them: `make load`. Prints answers, 95 % of times, and memory.

Exits with 1 where an answer is neither 2xx, 4xx nor 503, or memory is a fifth larger in the end than in the beginning.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx

from tests.studio.e2e.desk import serving, shapes, write

CLIENTS = int(os.environ.get("CLIENTS", "50"))
"""How many ask at once."""
SECONDS = float(os.environ.get("SECONDS", "120"))
"""For how long."""


def memory(pid: int) -> float:
    """Megabytes that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def ask(client: httpx.Client, ids: list[str], chance: random.Random) -> httpx.Response:
    """Something that a page asks, or that nobody should."""
    one = chance.choice(ids)
    x, y = chance.randrange(150), chance.randrange(150)
    stroke: dict[str, Any] = {"x": x, "y": y, "width": 9, "height": 9, "runs": [0, 81, 1], "base": "painted"}
    match chance.randrange(16):
        case 0:
            return client.get("project")
        case 1:
            return client.get("photographs", params={"sort": chance.choice(["name", "score", "area"])})
        case 2 | 3:
            return client.get(f"photographs/{one}/thumbnail")
        case 4:
            return client.get(f"photographs/{one}/mask")
        case 5:
            return client.get(f"photographs/{one}/overlay")
        case 6 | 7:
            return client.patch(f"photographs/{one}/mask", json=stroke)
        case 8:
            return client.get("summary")
        case 9:
            return client.post(f"photographs/{one}/propose", json={"x": x, "y": y, "class": 1})
        case 10:
            return client.post("visible", json={"ids": [one], "client": str(chance.random())})
        case 11:
            return client.patch(f"photographs/{one}/mask", content=b'{"x": ' + b"9" * chance.randrange(99))
        case 12:
            return client.get(f"photographs/..%2f..%2f{chance.randrange(99)}/image")
        case 13:
            return client.put(f"photographs/{one}/mask", content=os.urandom(200), headers={"content-type": "image/png"})
        case 14:
            return client.post("classes", content=b"x" * (2 << 20))
        case _:
            return client.get("photographs", params={"limit": 10**12}, headers={"host": "evil.example"})


def main() -> int:
    answers: Counter[int] = Counter()
    times: list[float] = []
    with tempfile.TemporaryDirectory() as place:
        scenes = shapes(12, side=192)
        folder = write(Path(place) / "photos", {f"scene-{i}.png": photo for i, (photo, _) in enumerate(scenes)})
        with serving(folder) as server:
            base = f"{server.address}api/v1/"
            with httpx.Client(base_url=base, timeout=60) as first:
                ids = [one["id"] for one in first.get("photographs").json()["items"]]
                first.post("classes", json={"name": "star"})
                body = {"width": 192, "height": 192, "runs": [2000, 90, 1]}
                first.put(f"photographs/{ids[0]}/mask", json=body, headers={"if-none-match": "*"})
                first.post("concept", json={}, timeout=120)
            end = time.monotonic() + SECONDS

            def work(number: int) -> None:
                chance = random.Random(number)
                with httpx.Client(base_url=base, timeout=120) as client:
                    while time.monotonic() < end:
                        start = time.monotonic()
                        try:
                            answers[ask(client, ids, chance).status_code] += 1
                        except httpx.RemoteProtocolError:
                            answers[0] += 1
                        times.append(time.monotonic() - start)

            threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            assert server.process is not None
            sizes = []
            while any(thread.is_alive() for thread in threads):
                time.sleep(1)
                sizes.append(memory(server.process.pid))
    times.sort()
    early, late = max(sizes[: max(1, len(sizes) // 4)]), max(sizes[-max(1, len(sizes) // 4) :])
    print(f"{CLIENTS} clients, {SECONDS:.0f} s: {len(times)} answers, {len(times) / SECONDS:.0f} a second")
    print(f"  median {1000 * times[len(times) // 2]:.0f} ms, 95 % within {1000 * times[int(0.95 * len(times))]:.0f} ms")
    print("  " + ", ".join(f"{status}: {count}" for status, count in sorted(answers.items())))
    print(f"  memory: {early:.0f} MB in the first quarter, {late:.0f} MB in the last")
    wrong = [status for status in answers if not (200 <= status < 300 or 400 <= status < 500 or status == 503)]
    return int(bool(wrong) or late > 1.2 * early)


if __name__ == "__main__":
    sys.exit(main())
