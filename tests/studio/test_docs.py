"""The client in docs/studio.md."""

import io
import re
from pathlib import Path

import numpy as np
from PIL import Image

from tests.studio.conftest import truth
from tests.studio.test_api import paint

PAGE = Path(__file__).resolve().parents[2] / "docs" / "studio.md"


def test_the_client_of_three_lines_runs(client, ids):
    paint(client, ids, "0.png")
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    text = text.replace("http://127.0.0.1:8765/api/v1/", str(client.base_url)).replace("mug.jpg", "0.png")
    space: dict[str, object] = {}
    exec(compile(text, str(PAGE), "exec"), space)
    assert space["photos"] == ids
    assert (np.asarray(Image.open(io.BytesIO(space["mask"].content))) == truth(0)).all()  # type: ignore[attr-defined]
