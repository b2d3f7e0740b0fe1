import numpy as np
from numpy.typing import NDArray

from dgpnet.colours import PALETTE, from_hex, packed, to_hex, unpacked
from dgpnet.images import IGNORE


def lab(colours: NDArray[np.uint8]) -> NDArray[np.float64]:
    """(N, 3) sRGB -> CIE L*a*b*, in which distances are about as large as they look; 2.3 is just seen."""
    light = colours / 255
    light = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    to_xyz = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]
    xyz = light @ np.transpose(to_xyz) / (0.9505, 1.0, 1.0888)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def test_the_first_24_classes_background_and_ignore_look_different():
    seen = lab(PALETTE[[*range(25), IGNORE]].astype(float))
    apart = np.linalg.norm(seen[:, None] - seen, axis=2) + 1000 * np.eye(len(seen))
    assert apart.min() > 25


def test_the_first_colours_stay_what_they_were():
    first = [(0, 0, 0), (230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0)]
    assert PALETTE[:8].tolist() == [list(colour) for colour in [*first, (204, 121, 167)]]


def test_no_two_values_have_one_colour():
    assert len(np.unique(PALETTE, axis=0)) == 256


def test_a_colour_comes_back_from_a_web_page_and_from_a_number() -> None:
    colour = (1, 171, 255)
    assert to_hex(colour) == "#01abff"
    assert from_hex("#01ABff") == unpacked(packed(colour)) == colour


def test_other_texts_are_no_colours() -> None:
    for text in ("", "red", "#fff", "#0x1234", "#١٢٣٤٥٦", "#01abff "):
        assert from_hex(text) is None
