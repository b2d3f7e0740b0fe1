"""Paint one, find the rest, with numpy, onnxruntime and Pillow alone: what `dgpnet export onnx --out FOLDER` is for.

python segment.py FOLDER painted.jpg mask.png photo.jpg found.png
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image

folder, painted, mask, photo, out = map(Path, sys.argv[1:])
about = json.loads((folder / "about.json").read_text())
side = about["size"]


def pixels(path):
    image = Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)
    normal = (np.asarray(image, np.float32) / 255 - about["mean"]) / about["std"]
    return normal.astype(np.float32).transpose(2, 0, 1)[None]


def run(name, **arrays):
    session = onnxruntime.InferenceSession(folder / name)
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, arrays), strict=True))


labels = np.asarray(Image.open(mask).resize((side, side), Image.Resampling.NEAREST))
masks = np.stack([labels == c for c in range(1, labels.max() + 1)])[None].astype(np.float32)
state = run("support.onnx", photographs=pixels(painted), masks=masks)
log_odds = run("query.onnx", photographs=pixels(photo), **state)["log_odds"][0]
size = Image.open(photo).size
large = np.stack([Image.fromarray(one).resize(size, Image.Resampling.BILINEAR) for one in log_odds])
found = np.where(large.max(0) > 0, large.argmax(0) + 1, 0)
Image.fromarray(found.astype(np.uint8)).save(out)
