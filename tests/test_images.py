"""Photographs and masks come in from any file as viewers show them, or are refused with one sentence."""

import contextlib
import io
import os
import struct
import subprocess
import sys
import warnings
import zlib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from dgpnet import images
from dgpnet.colours import PALETTE
from dgpnet.errors import Error, Notice
from dgpnet.images import read_mask, read_photo

ORIENTATIONS = range(1, 9)
UPRIGHT = (20, 30)  # (H, W) of the scene in the orientation tests
# Every mode of Pillow's that a photograph comes in, and a format that holds it.
PHOTOGRAPHS = ["L.png", "RGB.png", "P.png", "RGBA.png", "LA.png", "P.gif", "L.jpg", "YCbCr.jpg", "CMYK.jpg"]
PHOTOGRAPHS += ["CMYK.tiff", "RGBA.tiff", "LAB.tiff", "RGBA.webp", "RGB.bmp", "RGB.ppm", "RGB.jp2"]


def scene() -> np.ndarray:
    """(20, 30, 3) uint8: every corner another colour, so that each turn and flip shows, even after JPEG."""
    photo = np.zeros((*UPRIGHT, 3), np.uint8)
    photo[:10, :15] = (250, 10, 10)
    photo[:10, 15:] = (10, 250, 10)
    photo[10:, :15] = (10, 10, 250)
    photo[10:, 15:] = (240, 240, 240)
    return photo


def stored(upright: np.ndarray, orientation: int) -> Image.Image:
    """How a camera with this EXIF orientation stores the upright picture; undone by Pillow's own exif_transpose."""
    turns = Image.Transpose
    undo = {2: turns.FLIP_LEFT_RIGHT, 3: turns.ROTATE_180, 4: turns.FLIP_TOP_BOTTOM, 5: turns.TRANSPOSE}
    undo |= {6: turns.ROTATE_90, 7: turns.TRANSVERSE, 8: turns.ROTATE_270}
    image = Image.fromarray(upright)
    return image.transpose(undo[orientation]) if orientation in undo else image


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def close(given: np.ndarray, expected: np.ndarray) -> bool:
    """Equal but for what JPEG, WebP and AVIF lose; exact at the centres of the four colours to a few grey levels."""
    centres = (slice(4, None, 10), slice(7, None, 15))
    return given.shape == expected.shape and np.abs(given[centres].astype(int) - expected[centres]).max() <= 12


class TestOrientation:
    @pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tiff", ".avif"])
    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_all_eight_come_in_upright(self, tmp_path: Path, orientation: int, suffix: str) -> None:
        path = tmp_path / f"photo{suffix}"
        stored(scene(), orientation).save(path, exif=exif(orientation), quality=95)
        assert images.photo_size(path) == UPRIGHT
        assert images.orientation(path) == orientation
        assert close(read_photo(path), scene())

    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_a_pil_image_is_turned_like_its_file(self, tmp_path: Path, orientation: int) -> None:
        path = tmp_path / "photo.jpg"
        stored(scene(), orientation).save(path, exif=exif(orientation))
        with Image.open(path) as image:
            assert np.array_equal(read_photo(image), read_photo(path))
        with Image.open(path) as image:
            assert np.array_equal(read_photo(ImageOps.exif_transpose(image)), read_photo(path))

    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_a_png_that_says_so_after_its_pixels_is_turned(self, tmp_path: Path, orientation: int) -> None:
        path = tmp_path / "photo.png"
        buffer = io.BytesIO()
        stored(scene(), orientation).save(buffer, format="PNG")
        tags = exif(orientation).tobytes().removeprefix(b"Exif\0\0")
        path.write_bytes(buffer.getvalue()[:-12] + png_chunk(b"eXIf", tags) + png_chunk(b"IEND", b""))
        assert images.orientation(path) == orientation
        assert images.photo_size(path) == UPRIGHT
        assert np.array_equal(read_photo(path), scene())

    @pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tiff", ".avif"])
    def test_size_and_orientation_come_without_decoding(
        self, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / f"photo{suffix}"
        Image.fromarray(scene()).save(path)
        monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was decoded"))
        assert images.photo_size(path) == UPRIGHT
        assert images.orientation(path) == 1

    @pytest.mark.parametrize("value", [0, 9, 77])
    def test_a_value_that_means_nothing_is_upright(self, tmp_path: Path, value: int) -> None:
        path = tmp_path / "photo.jpg"
        Image.fromarray(scene()).save(path, exif=exif(value))
        assert images.orientation(path) == 1
        assert images.photo_size(path) == UPRIGHT

    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_orient_undoes_how_the_camera_stored_it(self, orientation: int) -> None:
        assert np.array_equal(images.orient(np.asarray(stored(scene(), orientation)), orientation), scene())


class TestModes:
    """One grey of 200 and one of 50, through every mode that a photograph comes in."""

    @pytest.mark.parametrize("name", PHOTOGRAPHS)
    def test_any_mode_gives_its_colours(self, tmp_path: Path, name: str) -> None:
        path, mode = tmp_path / name, name.split(".")[0]
        grey = np.full((16, 32, 3), 200, np.uint8)
        grey[:, 16:] = 50
        image = Image.fromarray(grey)
        if mode == "LAB":
            lab = np.zeros((16, 32, 3), np.uint8)
            lab[:, :, 0] = np.where(grey[:, :, 0] == 200, 205, 53)  # the L of these greys, times 2.55
            image = Image.frombytes("LAB", (32, 16), lab.tobytes())
        (image.quantize(4) if mode == "P" else image.convert(mode)).save(path)
        photo = read_photo(path)
        assert photo.shape == (16, 32, 3)
        assert photo.dtype == np.uint8
        assert np.abs(photo.astype(int) - grey).max() <= 4

    def test_one_bit_is_black_and_white(self, tmp_path: Path) -> None:
        bits = np.eye(9, dtype=bool)
        Image.fromarray(bits).save(tmp_path / "photo.png")
        assert np.array_equal(read_photo(tmp_path / "photo.png"), 255 * bits[:, :, None].repeat(3, axis=2))

    @pytest.mark.parametrize("suffix", [".png", ".tiff"])
    def test_sixteen_bits_are_scaled(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"photo{suffix}"
        Image.fromarray(np.array([[0, 257 * 100, 65535]], np.uint16)).save(path)
        assert read_photo(path)[0, :, 0].tolist() == [0, 100, 255]

    def test_fractions_are_scaled_and_a_wrong_range_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "photo.tiff"
        Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32)).save(path)
        assert read_photo(path)[0, :, 1].tolist() == [0, 128, 255]
        for wrong in (1.5, -0.1, np.nan):
            Image.fromarray(np.array([[0.0, wrong]], np.float32)).save(path)
            with pytest.raises(Error, match=r"photo\.tiff has grey values"):
                read_photo(path)

    @pytest.mark.parametrize("largest", [255, 4095])
    @pytest.mark.parametrize("kind", ["grey.png", "grey.tiff", "colours.png", "transparent.png", "I", "I;16"])
    def test_what_twelve_bits_hold_is_read_as_it_stands_and_said(self, tmp_path: Path, kind: str, largest: int) -> None:
        values, path = np.array([[0, largest]], np.uint16), tmp_path / f"photo-{kind}"
        if kind.startswith("grey"):
            Image.fromarray(values).save(path)
        elif kind.startswith("I"):
            Image.fromarray(values.astype(np.int32 if kind == "I" else np.uint16)).save(path, "TIFF")
        else:
            channels = [values] * 3 + [np.full_like(values, 65535)] * (kind == "transparent.png")
            path.write_bytes(deep_png(np.dstack(channels)))
        said: list[bool] = []
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # whoever asks is told, and nobody else
            given = Image.open(path) if kind.startswith("I") else path
            seen = np.asarray(images.open_photo(given, faint=lambda: said.append(True)))
        assert said == [True]
        assert seen.max() <= 16
        with pytest.warns(Notice, match=r"no value above 4095 \(12 bits\).*; where less is meant to be white"):
            assert np.array_equal(read_photo(path), seen)
        with pytest.raises(Error, match="pixels"):
            read_photo(path, max_pixels=1)

    @pytest.mark.parametrize("suffix", [".png", ".tiff", "-colours.png"])
    def test_others_are_not_spoken_of(self, tmp_path: Path, suffix: str) -> None:
        path, values = tmp_path / f"photo{suffix}", np.array([[0, 4096]], np.uint16)
        if suffix == "-colours.png":
            path.write_bytes(deep_png(np.dstack([values] * 3)))
        else:
            Image.fromarray(values).save(path)
        Image.new("RGB", (3, 2), (9, 9, 9)).save(tmp_path / "dark.png")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_photo(path).max() == 16
            assert read_photo(tmp_path / "dark.png").max() == 9

    def test_it_is_said_once_in_a_process_and_not_of_each(self, tmp_path: Path) -> None:
        for i in range(5):
            Image.fromarray(np.array([[0, 4095]], np.uint16)).save(tmp_path / f"{i}.png")
        code = "import dgpnet.images as i; [i.read_photo(f'{n}.png') for n in range(5)]"
        told = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert told.stderr.count("Notice: A photograph has") == 1

    def test_a_tiff_that_says_that_it_has_twelve_bits_is_scaled_so(self, tmp_path: Path) -> None:
        pixels = bytes([0x00, 0x07, 0xFF, 0xFF, 0xF0, 0x10])  # 0, 2047, 4095, 16
        entries = [(256, 4), (257, 1), (258, 12), (259, 1), (262, 1), (273, 122), (277, 1), (278, 1), (279, 6)]
        tags = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
        head = b"II*\0" + struct.pack("<IH", 8, len(entries)) + tags + bytes(4)
        (tmp_path / "photo.tiff").write_bytes(head + pixels)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read_photo(tmp_path / "photo.tiff")[0, :, 0].tolist() == [0, 127, 255, 1]

    @pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "RGB"])
    def test_what_is_transparent_is_white(self, tmp_path: Path, mode: str) -> None:
        path = tmp_path / "photo.png"
        if mode in ("RGBA", "LA"):
            image = Image.new(mode, (4, 4))
            image.putpixel((0, 0), (0, 0, 0, 255) if mode == "RGBA" else (0, 255))
            image.save(path)
        else:
            colour = (9, 9, 9) if mode == "RGB" else 1
            image = Image.new(mode, (4, 4), colour)
            image.putpixel((0, 0), 0 if mode == "P" else (0, 0, 0))
            if mode == "P":
                image.putpalette([0, 0, 0, 9, 9, 9])
            image.save(path, transparency=colour)
        photo = read_photo(path)
        assert photo[0, 0].tolist() == [0, 0, 0]
        assert (photo[1:] == 255).all()

    def test_half_transparent_is_half_white(self) -> None:
        assert read_photo(Image.new("RGBA", (1, 1), (0, 0, 0, 128)))[0, 0].tolist() == [127, 127, 127]

    def test_an_animation_gives_its_first_frame(self, tmp_path: Path) -> None:
        first, second = Image.new("RGB", (5, 4), (255, 0, 0)), Image.new("RGB", (5, 4), (0, 0, 255))
        first.save(tmp_path / "photo.gif", save_all=True, append_images=[second])
        assert (read_photo(tmp_path / "photo.gif") == (255, 0, 0)).all()


class TestSources:
    def test_arrays_tensors_and_images_agree(self) -> None:
        photo = scene()
        tensor = torch.from_numpy(photo).permute(2, 0, 1)
        for source in (photo, Image.fromarray(photo), tensor, tensor.float() / 255, tensor.double() / 255):
            assert np.array_equal(read_photo(source), photo)
        grey = photo[:, :, 0]
        assert np.array_equal(read_photo(grey), np.stack([grey] * 3, axis=2))

    @pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
    def test_a_matrix_is_an_array(self) -> None:
        grey = scene()[:, :, 0]
        assert np.array_equal(read_photo(np.matrix(grey)), read_photo(grey))
        assert np.array_equal(read_photo(np.matrix(grey) / 255), read_photo(grey))
        assert type(read_mask(np.matrix(grey))) is np.ndarray
        with pytest.raises(Error, match="photograph"):
            read_photo(np.matrix(grey.astype(int)))

    @pytest.mark.parametrize(
        "source",
        [
            np.full((4, 4, 3), 1.01),
            np.full((4, 4, 3), np.nan),
            np.zeros((3, 4, 5), np.uint8),
            np.zeros((4, 4, 3), bool),
            np.zeros((4, 4, 3), object),
            np.zeros((4, 4), [("red", "u1")]),
            np.zeros((4, 4, 3), complex),
            np.zeros(4, np.uint8),
            np.zeros((0, 4), np.uint8),
            torch.zeros(5, 4, 3),
            torch.zeros(4, 4),
            torch.zeros(3, 4, 4, dtype=torch.int64),
            torch.full((3, 4, 4), 1.01),
            torch.full((3, 4, 4), -1.0),
            torch.full((3, 4, 4), torch.nan),
            torch.zeros(3, 4, 4).to_sparse(),
            torch.zeros(3, 4, 4, device="meta"),
            torch.zeros(3, 4, 4, dtype=torch.complex64),
            None,
            b"photo.jpg",
        ],
        ids=lambda source: f"{type(source).__name__} {getattr(source, 'dtype', '')}",
    )
    def test_anything_else_is_refused(self, source: object) -> None:
        with pytest.raises(Error, match="photograph"):
            read_photo(source)  # type: ignore[arg-type]

    def test_max_pixels_holds_for_every_source(self, tmp_path: Path) -> None:
        photo = scene()
        Image.fromarray(photo).save(tmp_path / "photo.png")
        tensor = torch.from_numpy(photo).permute(2, 0, 1)
        for source in (photo, Image.fromarray(photo), tensor, tmp_path / "photo.png", str(tmp_path / "photo.png")):
            assert read_photo(source, max_pixels=600).shape == photo.shape
            with pytest.raises(Error, match="30 × 20 pixels, more than the 599 allowed"):
                read_photo(source, max_pixels=599)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def deep_png(colours: np.ndarray) -> bytes:
    """A PNG of colours (H, W, 3 or 4) with 16 bits each, which Pillow does not write."""
    height, width, channels = colours.shape
    header = struct.pack(">IIBBBBB", width, height, 16, {3: 2, 4: 6}[channels], 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in colours)
    chunks = png_chunk(b"IHDR", header), png_chunk(b"IDAT", zlib.compress(rows)), png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def huge_png(side: int) -> bytes:
    """A PNG of side × side pixels in a few bytes: the header is right, the pixels are not there."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b"") + png_chunk(b"IEND", b"")


def jpeg(noise: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(noise).save(buffer, format="JPEG")
    return buffer.getvalue()


class TestBrokenFiles:
    """Each is refused with one sentence that names the file."""

    @pytest.fixture
    def refused(self, tmp_path: Path) -> Callable[[str, bytes, str], None]:
        def check(name: str, content: bytes, reason: str) -> None:
            path = tmp_path / name
            path.write_bytes(content)
            for read in (read_photo, read_mask):
                with pytest.raises(Error, match=reason) as problem:
                    read(path)
                assert str(path) in str(problem.value)
                assert "\n" not in str(problem.value)

        return check

    @pytest.mark.parametrize("side", [12_000, 50_000, 1_000_000])
    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    def test_a_huge_png_is_refused_before_decoding(
        self, side: int, refused: Callable[[str, bytes, str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("it was decoded"))
        refused("huge.png", huge_png(side), "pixels")

    def test_a_larger_limit_reaches_pillow(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
        Image.fromarray(scene()).save(tmp_path / "photo.tiff")
        assert read_photo(tmp_path / "photo.tiff", max_pixels=1000).shape == (20, 30, 3)

    def test_a_truncated_jpeg(self, rng: np.random.Generator, tmp_path: Path) -> None:
        whole = jpeg(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8))
        path = tmp_path / "photo.jpg"
        for length in (len(whole) // 2, len(whole) - 40, 700, 200, 30):
            path.write_bytes(whole[:length])
            with pytest.raises(Error, match=r"photo\.jpg cannot be read as a photograph"):
                read_photo(path)

    def test_a_truncated_png(self, rng: np.random.Generator, refused: Callable[[str, bytes, str], None]) -> None:
        buffer = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(buffer, format="PNG")
        refused("photo.png", buffer.getvalue()[:5000], "damaged or cut off")

    def test_an_empty_file(self, refused: Callable[[str, bytes, str], None]) -> None:
        refused("photo.jpg", b"", r"empty \(0 bytes\)")

    def test_a_text_named_jpg(self, refused: Callable[[str, bytes, str], None]) -> None:
        refused("photo.jpg", b"not a photograph\n" * 50, "no image format")

    def test_a_format_that_would_start_a_program(self, refused: Callable[[str, bytes, str], None]) -> None:
        refused("photo.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "no image format")

    def test_heic_without_its_plugin(
        self, refused: Callable[[str, bytes, str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        refused("photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200), "pip install pillow-heif")

    def test_heic_with_its_plugin(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        plugin = ModuleType("pillow_heif")
        photo = scene()

        def register() -> None:
            monkeypatch.setattr(
                Image, "OPEN", {**Image.OPEN, "HEIF": (lambda file, name: Image.fromarray(photo), None)}
            )

        plugin.register_heif_opener = register  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "pillow_heif", plugin)
        (tmp_path / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic" + bytes(200))
        assert np.array_equal(read_photo(tmp_path / "photo.heic"), photo)

    def test_a_missing_file_and_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(Error, match=r"There is no photograph .*gone\.jpg"):
            read_photo(tmp_path / "gone.jpg")
        with pytest.raises(Error, match="is a folder"):
            read_photo(tmp_path)
        with pytest.raises(Error, match=r"There is no photograph .*gone\.jpg"):
            images.photo_size(tmp_path / "gone.jpg")

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("format", ["JPEG", "PNG", "GIF", "TIFF", "WEBP"])
    @given(data=st.data())
    def test_damaged_bytes_give_a_photograph_or_an_error(
        self, tmp_path_factory: pytest.TempPathFactory, format: str, data: st.DataObject
    ) -> None:
        """Whatever is wrong inside a file, nothing but Error comes out."""
        buffer = io.BytesIO()
        Image.fromarray(scene()).save(buffer, format=format)
        content = bytearray(buffer.getvalue())
        for _ in range(data.draw(st.integers(1, 20))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path = tmp_path_factory.mktemp("damaged") / "photo"
        path.write_bytes(content)
        with contextlib.suppress(Error):
            assert read_photo(path, max_pixels=10_000).dtype == np.uint8


class TestMasks:
    def test_palette_index_grey_and_bits(self, tmp_path: Path) -> None:
        values = np.array([[0, 1, 2], [7, 128, 255]], np.uint8)
        path = tmp_path / "mask.png"
        Image.fromarray(values).save(path)
        assert np.array_equal(read_mask(path), values)
        palette = Image.fromarray(values).copy()
        palette.putpalette(PALETTE.tobytes())
        palette.save(path)
        assert np.array_equal(read_mask(path), values)
        Image.fromarray(values > 1).save(path)
        assert np.array_equal(read_mask(path), values > 1)
        assert read_mask(path).dtype == np.uint8

    def test_a_palette_of_few_colours_keeps_its_indices(self, tmp_path: Path) -> None:
        image = Image.new("P", (3, 1))
        image.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0])
        image.putdata([2, 0, 1])
        image.save(tmp_path / "mask.png", bits=2)
        assert read_mask(tmp_path / "mask.png").tolist() == [[2, 0, 1]]

    @pytest.mark.parametrize("suffix", [".png", ".tiff"])
    def test_sixteen_bits_keep_their_values(self, tmp_path: Path, suffix: str) -> None:
        values = np.array([[0, 1, 300], [1000, 65535, 2]], np.uint16)
        Image.fromarray(values).save(tmp_path / f"mask{suffix}")
        mask = read_mask(tmp_path / f"mask{suffix}")
        assert mask.dtype == np.uint16
        assert np.array_equal(mask, values)

    def test_colours_are_packed(self, tmp_path: Path) -> None:
        colours = np.array([[[0, 0, 0], [255, 128, 1], [0, 0, 1]]], np.uint8)
        Image.fromarray(colours).save(tmp_path / "mask.png")
        for source in (tmp_path / "mask.png", colours, Image.fromarray(colours)):
            mask = read_mask(source)
            assert mask.dtype == np.uint32
            assert mask.tolist() == [[0, 0xFF8001, 1]]

    def test_what_is_transparent_is_background(self) -> None:
        rgba = np.array([[[9, 9, 9, 0], [1, 2, 3, 255], [1, 2, 3, 9]]], np.uint8)
        assert read_mask(Image.fromarray(rgba)).tolist() == [[0, 0x010203, 0x010203]]
        assert read_mask(Image.fromarray(rgba[:, :, 2:])).tolist() == [[0, 3, 3]]

    def test_whole_numbers_in_floats_are_read_and_fractions_refused(self) -> None:
        assert read_mask(Image.fromarray(np.array([[0, 3]], np.float32))).tolist() == [[0, 3]]
        for wrong in (0.5, np.nan):
            with pytest.raises(Error, match="fractions"):
                read_mask(Image.fromarray(np.array([[0, wrong]], np.float32)))

    def test_a_jpeg_is_refused(self, tmp_path: Path) -> None:
        Image.new("L", (4, 4)).save(tmp_path / "mask.jpg")
        with pytest.raises(Error, match=r"mask\.jpg is a JPEG"):
            read_mask(tmp_path / "mask.jpg")

    def test_arrays_and_tensors(self) -> None:
        values = np.array([[0, 1], [2, 255]])
        for source in (values, values.astype(np.uint8), torch.from_numpy(values)):
            assert np.array_equal(read_mask(source), values)
        assert read_mask(values > 0).tolist() == [[0, 1], [1, 1]]
        assert read_mask(values.astype(np.uint32)).dtype != np.uint32  # else they would pass for colours
        assert read_mask(torch.tensor([[True, False]])).tolist() == [[1, 0]]
        for wrong in (np.zeros((2, 2)), np.zeros((1, 2, 2), int), np.zeros((2, 0), int), torch.zeros(2, 2)):
            with pytest.raises(Error, match="mask"):
                read_mask(wrong)

    def test_another_size_is_refused_naming_both(self, tmp_path: Path) -> None:
        Image.new("L", (5, 4)).save(tmp_path / "mask.png")
        assert read_mask(tmp_path / "mask.png", size=(4, 5)).shape == (4, 5)
        with pytest.raises(Error, match=r"mask\.png is 5 × 4 pixels .* 4 × 5"):
            read_mask(tmp_path / "mask.png", size=(5, 4))

    @pytest.mark.parametrize("orientation", ORIENTATIONS)
    def test_a_mask_in_the_stored_orientation_is_recognised_by_its_size(self, tmp_path: Path, orientation: int) -> None:
        upright = scene()[:, :, 0]
        stored(scene(), orientation).save(tmp_path / "photo.jpg", exif=exif(orientation))
        photo = tmp_path / "photo.jpg"
        if orientation >= 5:
            assert np.array_equal(read_mask(np.asarray(stored(upright, orientation)), photo=photo), upright)
        assert np.array_equal(read_mask(upright, photo=photo, size=UPRIGHT), upright)

    def test_an_upright_photograph_does_not_turn_a_mask(self, tmp_path: Path) -> None:
        Image.fromarray(scene()).save(tmp_path / "photo.jpg")
        with pytest.raises(Error, match=r"20 × 30 .* 30 × 20"):
            read_mask(scene()[:, :, 0].T, photo=tmp_path / "photo.jpg")

    @given(st.integers(1, 9), st.integers(1, 9), st.booleans())
    def test_written_masks_come_back(
        self, tmp_path_factory: pytest.TempPathFactory, h: int, w: int, bits: bool
    ) -> None:
        path = tmp_path_factory.mktemp("masks") / "mask.png"
        mask = np.random.default_rng(h * 10 + w).integers(0, 256, (h, w))
        mask = mask > 128 if bits else mask
        images.write_mask(path, mask)
        assert np.array_equal(read_mask(path), mask)
        assert Image.open(path).mode == "P"

    def test_what_does_not_fit_is_not_written(self, tmp_path: Path) -> None:
        path = tmp_path / "mask.png"
        for wrong in (np.full((2, 2), 256), np.full((2, 2), -1), np.zeros((2, 2)), np.zeros((2, 2, 3), np.uint8)):
            with pytest.raises(Error):
                images.write_mask(path, wrong)
        assert not path.exists()

    def test_the_palette_tells_all_values_apart(self) -> None:
        assert len(np.unique(PALETTE, axis=0)) == 256
        assert PALETTE[0].tolist() == [0, 0, 0]


class TestResizing:
    def test_photographs_shrink_without_aliasing(self) -> None:
        stripes = np.zeros((64, 64, 3), np.uint8)
        stripes[:, ::2] = 254
        assert np.abs(images.resize_photo(stripes, (8, 16)).astype(int) - 127).max() <= 16
        assert images.resize_photo(stripes, (8, 16)).shape == (8, 16, 3)

    def test_the_same_size_changes_nothing(self) -> None:
        assert np.array_equal(images.resize_photo(scene(), UPRIGHT), scene())

    @given(*[st.integers(1, 40)] * 2)
    def test_masks_take_the_value_at_the_centre(self, old: int, new: int) -> None:
        centres = [(Fraction(2 * n + 1, 2) * old / new).__floor__() for n in range(new)]
        assert images.resize_mask(np.arange(old)[None], (1, new)).tolist() == [centres]
        assert images.resize_mask(np.arange(old)[:, None], (new, 1)).tolist() == [[n] for n in centres]

    @pytest.mark.parametrize("dtype", [bool, np.uint16, np.uint32, np.int64])
    def test_masks_keep_their_dtype(self, dtype: type) -> None:
        resized = images.resize_mask(np.eye(4).astype(dtype), (8, 8))
        assert resized.dtype == dtype
        assert np.array_equal(resized, np.eye(4).astype(dtype).repeat(2, 0).repeat(2, 1))


class TestWhatIsAccepted:
    """Kinds of photographs that need no conversion by the caller."""

    def test_alpha_in_an_array_is_laid_on_white(self) -> None:
        rgba = np.array([[[9, 8, 7, 255], [9, 8, 7, 0]]], np.uint8)
        assert read_photo(rgba).tolist() == [[[9, 8, 7], [255, 255, 255]]]
        assert read_photo(rgba[:, :, 2:]).tolist() == [[[7, 7, 7], [255, 255, 255]]]
        assert read_photo(torch.from_numpy(rgba).permute(2, 0, 1)).tolist() == [[[9, 8, 7], [255, 255, 255]]]

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_fractions_are_scaled(self, dtype: type) -> None:
        assert np.array_equal(read_photo((scene() / 255).astype(dtype)), scene())

    def test_the_bytes_of_a_file_are_its_photograph_or_mask(self, tmp_path: Path) -> None:
        path = tmp_path / "photo.png"
        stored(scene(), 6).save(path, exif=exif(6))
        assert np.array_equal(read_photo(path.read_bytes()), scene())
        assert images.photo_size(path.read_bytes()) == UPRIGHT
        Image.fromarray(scene()[:, :, 0]).save(path)
        assert np.array_equal(read_mask(path.read_bytes()), scene()[:, :, 0])


class TestWhatIsNotOpened:
    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
    def test_a_pipe_does_not_keep_its_reader_waiting(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "photo.jpg")
        for read in (read_photo, read_mask, images.photo_size):
            with pytest.raises(Error, match=r"photo\.jpg is no file but a pipe"):
                read(tmp_path / "photo.jpg")

    def test_a_link_to_itself_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "photo.jpg").symlink_to(tmp_path / "photo.jpg")
        with pytest.raises(Error, match=r"photo\.jpg"):
            read_photo(tmp_path / "photo.jpg")

    @pytest.mark.parametrize("name", ["a\0b.jpg", "\ud800.jpg", "a" * 300, "a/" * 4000, ""], ids=lambda name: name[:3])
    def test_names_that_no_file_has_are_refused(self, name: str) -> None:
        for read in (read_photo, read_mask, images.photo_size):
            with pytest.raises(Error) as problem:
                read(name)
            assert len(str(problem.value)) <= 500

    @pytest.mark.parametrize(("width", "height"), [(100_000_000, 1), (1, 100_000_000)])
    def test_a_line_of_a_hundred_million_pixels_is_refused(self, tmp_path: Path, width: int, height: int) -> None:
        header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
        (tmp_path / "line.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b""))
        for read in (read_photo, read_mask, images.photo_size):
            with pytest.raises(Error, match=r"at most 100,000 a side"):
                read(tmp_path / "line.png")

    def test_an_icon_is_refused_before_its_picture_is_decoded(self, tmp_path: Path) -> None:
        Image.fromarray(scene()).save(tmp_path / "photo.ico")
        with pytest.raises(Error, match="no image format known here"):
            read_photo(tmp_path / "photo.ico")

    def test_what_does_not_fit_into_memory_is_an_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(image: Image.Image) -> None:
            raise MemoryError

        Image.fromarray(scene()).save(tmp_path / "photo.bmp")
        monkeypatch.setattr(Image.Image, "load", full)
        with pytest.raises(Error, match="does not fit into this machine's memory"):
            read_photo(tmp_path / "photo.bmp")


QUIET = """
import sys
from dgpnet import images
from dgpnet.errors import Error
for path in sys.argv[1:]:
    try:
        images.read_photo(path)
    except Error:
        pass
"""


def test_damaged_files_write_nothing_to_the_terminal(tmp_path: Path, rng: np.random.Generator) -> None:
    """Neither libtiff, which writes by itself, nor Pillow's warnings and its log."""
    for number in range(60):
        buffer = io.BytesIO()
        compression = ("tiff_lzw", "tiff_adobe_deflate", "packbits")[number % 3]
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(buffer, "TIFF", compression=compression)
        content = bytearray(buffer.getvalue())
        for place in rng.integers(0, len(content), 6):
            content[place] = rng.integers(256)
        (tmp_path / f"{number}.tiff").write_bytes(content)
    bomb = huge_png(9_999)  # just below the limit of dgpnet, above Pillow's
    (tmp_path / "large.png").write_bytes(bomb)
    paths = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run([sys.executable, "-c", QUIET, *paths], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_distinct_values_are_those_of_the_whole_mask(height: int, width: int, seed: int) -> None:
    mask = np.random.default_rng(seed).integers(0, 5, (height, width), dtype=np.uint32)
    assert np.array_equal(images.distinct(mask), np.unique(mask))


def test_colours_come_the_same_in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    rgba = np.random.default_rng(0).integers(0, 256, (7, 5, 4), dtype=np.uint8)
    rgba[:, :2, 3] = 0
    whole = read_mask(Image.fromarray(rgba))
    monkeypatch.setattr(images, "_BAND", 11)
    assert np.array_equal(read_mask(Image.fromarray(rgba)), whole)
    assert np.array_equal(whole, np.where(rgba[:, :, 3] > 0, read_mask(np.ascontiguousarray(rgba[:, :, :3])), 0))
