"""What two jobs must have in common: every file, byte by byte, but for how long things took."""

import json
import re
from pathlib import Path


def results(out: Path) -> dict[str, object]:
    """File -> content of all that a job wrote, its record included; times are taken out."""
    found: dict[str, object] = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out).as_posix()
        if path.is_dir() or name == ".dgpnet/lock":
            continue
        found[name] = _CONTENT.get(name, lambda content: content)(path.read_bytes())
    return found


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
