"""What two jobs must have in common: every file, byte by byte, but for how long things took."""

import json
import re
from pathlib import Path

from dgpnet import storage
from dgpnet.places import place_of


def results(out: Path) -> dict[str, object]:
    """File -> content of all that a job wrote, its record included; times are taken out."""
    found: dict[str, bytes] = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_dir() or name == ".dgpnet/lock":
            continue
        name = re.sub(r"^(\.dgpnet/\w+)-\d{8}\.jsonl$", r"\1.jsonl", name)  # a part of a record in object storage
        found[name] = found.get(name, b"") + path.read_bytes()
    return {name: _CONTENT.get(name, lambda content: content)(content) for name, content in found.items()}


def results_there(address: str, folder: Path) -> dict[str, object]:
    """As `results`, of a job that wrote to object storage; brought to a folder."""
    place = place_of(address)
    system, path = storage.opened(address)
    system.invalidate_cache()
    for name in (one.removeprefix(path).lstrip("/") for one in system.find(path)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(place.read(name) or b"")
    return results(folder)


def _without_seconds(content: bytes) -> object:
    lines = re.sub(rb'"seconds": [\d.e-]+(, "crc": "\w+")?', b"", content).splitlines()
    return sorted(re.sub(rb', "crc": "\w+"', b"", line) for line in lines)


def _table(content: bytes) -> object:
    rows = [line.split(",") for line in content.decode().splitlines()]
    column = rows[0].index("seconds")
    return [row[:column] + row[column + 1 :] for row in rows]


def _page(content: bytes) -> object:
    data = json.loads(content.decode().removeprefix("window.dgpnetReport = ").rstrip(";\n"))
    place = [one["name"] for one in data["figures"]].index("seconds")
    for row in data["rows"]:
        row[2][place] = None
    return data


_CONTENT = {
    ".dgpnet/done.jsonl": _without_seconds,
    "summary.json": _without_seconds,
    "summary.csv": _table,
    "report/data.js": _page,
}
