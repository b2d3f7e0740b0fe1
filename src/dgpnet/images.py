"""Photographs and masks as arrays: size first, then decoding, turned as viewers show them."""

import ctypes
import io
import logging
import os
import stat
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms, UnidentifiedImageError

from dgpnet import files
from dgpnet.checks import path_of, shown
from dgpnet.colours import PALETTE
from dgpnet.errors import Error, Notice

if TYPE_CHECKING:
    import torch

    #: What a photograph or a mask may be: a path, the bytes of a file, a PIL image, an array or a tensor.
    ImageSource = str | os.PathLike[str] | bytes | Image.Image | NDArray[Any] | torch.Tensor

#: The value of a mask's pixels that are neither background nor a class.
IGNORE: Final = 255
#: Pixels of the largest image that is decoded unless another limit is asked for …
MAX_PIXELS: Final = 100_000_000
#: … and of its longer side: a line of a hundred million pixels costs more than a square of them.
MAX_SIDE: Final = 100_000
#: Of PNG files: Pillow's 6 gains little more, and takes its time.
COMPRESSION: Final = 4
#: How PNG files of masks, numbers and maps are saved: they are made of runs, and looking for nothing else takes half
#: the time and makes them smaller.
RUNS: Final[Mapping[str, Any]] = MappingProxyType({"compress_level": COMPRESSION, "compress_type": zlib.Z_RLE})
#: The largest value of 12 bits: what cameras and microscopes have that save these in files of 16 bits.
TWELVE_BITS: Final = 4095
#: What such photographs have, for a sentence about one or many.
FAINT: Final = (
    f"more than 8 bits and no value above {TWELVE_BITS} (12 bits), which is seen nearly black, since white is 65535; "
    "where less is meant to be white, scale all photographs to 8 or 16 bits, the painted ones too"
)
#: ImageNet's means and standard deviations, red, green, blue, of values in [0, 1].
MEAN: Final = (0.485, 0.456, 0.406)
STD: Final = (0.229, 0.224, 0.225)

#: Formats that hold photographs or masks. Others stay shut: some (EPS) start further programs when decoded, and some
#: (ICO) are decoded before they tell their size.
_FORMATS: Final = ("JPEG", "MPO", "PNG", "TIFF", "WEBP", "GIF", "BMP", "PPM", "AVIF", "JPEG2000", "HEIF")
#: What an HEIC file has after "ftyp".
_HEIC_BRANDS: Final = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
#: Bytes of a PNG's EXIF data that are looked at.
_EXIF_BYTES: Final = 1 << 20
#: Pixels of a colour mask that are packed at once.
_BAND: Final = 1 << 20
_ORIENTATION_TAG: Final = 0x0112
#: What tells how many bits a sample of a TIFF has.
_BITS_TAG: Final = 0x0102
#: What turns an image of each EXIF orientation upright, as `orient` does for arrays.
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


# What Pillow says of a damaged file (with paths of its own source) is nothing that a user could act on: either an Error
# follows or the image can be read. Last in the list, so that whoever asks for these warnings gets them.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.", append=True)
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"PIL\.", append=True)
logging.getLogger("PIL").addHandler(logging.NullHandler())


def read_photo(source: "ImageSource", *, max_pixels: int = MAX_PIXELS) -> NDArray[np.uint8]:
    """The photograph as (H, W, 3) uint8 RGB, turned as its EXIF data says.

    source: a path, the bytes of an image file, a PIL image, an array (H, W), (H, W, 3) or with alpha (H, W, 2 or 4),
    or a tensor (C, H, W) of as many channels; arrays and tensors are uint8, or float in [0, 1].
    Any mode works: transparency is laid on white, 16 bits are scaled to 8, of an animation the first frame counts.
    Of 16 bits white is 65535, whatever the largest value is: by that, photographs of one folder would differ in
    brightness. A Notice says where 12 bits hold them all; in a TIFF that says that it has 12 bits white is 4095.
    The size is checked against `max_pixels` before anything is decoded. An array may share memory with the source.
    """
    if isinstance(source, np.ndarray):
        return _photo_of_array(source, max_pixels)
    if _is_tensor(source):
        return _photo_of_tensor(source, max_pixels)
    return np.array(open_photo(source, max_pixels=max_pixels))


def open_photo(
    source: "ImageSource", *, max_pixels: int = MAX_PIXELS, faint: Callable[[], object] | None = None
) -> Image.Image:
    """`read_photo` of a path or a PIL image, as an RGB image: cheaper where it is only resized and saved.

    faint: called, in place of a Notice, where a photograph of more than 8 bits has no value above TWELVE_BITS.
    """
    with _opened(source, max_pixels, "photograph") as (image, name), _explained(name, "photograph"):
        deep = _is_deep(image)
        image.load()
        is_faint = deep and _is_faint(image)
        # After load(), which turns a TIFF by itself and then forgets its orientation.
        turn = _TURNS.get(_orientation(image.getexif()))
        image = _to_rgb(image, name)
        image.info.clear()  # what is saved of it is its pixels
        image = image if turn is None else image.transpose(turn)
    if is_faint and faint is not None:
        faint()
    elif is_faint:
        # Without its name, so that Python says it once and not of every photograph.
        warnings.warn(Notice(f"A photograph has {FAINT}."), stacklevel=2)
    return image


def photo_size(path: str | os.PathLike[str] | bytes, *, max_pixels: int = MAX_PIXELS) -> tuple[int, int]:
    """(H, W) of the photograph as viewers show it, from the header alone."""
    with _opened(path, max_pixels, "photograph") as (image, name), _explained(name, "photograph"):
        width, height = image.size
        # Pillow gives the size of a TIFF as turned already.
        turned = image.format != "TIFF" and _orientation(_header_exif(image)) >= 5
        return (width, height) if turned else (height, width)


def orientation(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> int:
    """The EXIF orientation of the photograph, 1 (upright) to 8, from the header alone; 1 where there is none."""
    with _opened(path, max_pixels, "photograph") as (image, name), _explained(name, "photograph"):
        return _orientation(_header_exif(image))


def read_mask(
    source: "ImageSource",
    *,
    size: tuple[int, int] | None = None,
    photo: str | os.PathLike[str] | None = None,
    max_pixels: int = MAX_PIXELS,
) -> NDArray[Any]:
    """The mask's raw values as an (H, W) integer array.

    source: a path, the bytes of an image file, a PIL image, an (H, W) boolean or integer array or tensor, or an
    (H, W, 3) uint8 array of colours.
    uint8 for boolean (0, 1), grey and palette masks (the index), uint16 or int32 for deeper ones; uint32, and only
    then, for colours, packed as 0xRRGGBB. What is fully transparent is 0.
    size: the (H, W) that the mask must have; that of `photo` where only `photo` is given. A mask of another size is
    an Error, unless it has the size of `photo` before its EXIF rotation: then it is turned along.
    """
    mask, name = _raw_mask(source, max_pixels)
    if size is None and photo is not None:
        size = photo_size(photo, max_pixels=max_pixels)
    if size is None or mask.shape == tuple(size):
        return mask
    if photo is not None and mask.shape == (size[1], size[0]):
        turn = orientation(photo, max_pixels=max_pixels)
        if turn >= 5:
            return orient(mask, turn)
    raise Error(
        f"{name} is {mask.shape[1]} × {mask.shape[0]} pixels (width × height) and its photograph "
        f"{size[1]} × {size[0]}; give a mask of the photograph's size."
    )


def open_mask(path: str | os.PathLike[str], *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """A mask in the mode that it is stored in, turned as its EXIF data says: for what needs its palette or alpha."""
    with _opened(path, max_pixels, "mask") as (image, name), _explained(name, "mask"):
        image.load()
        turn = _TURNS.get(_orientation(image.getexif()))
        if turn is None:
            return image
        turned = image.transpose(turn)
        turned.format = image.format
        return turned


def orient(array: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn a stored (H, W, ...) array upright by its EXIF orientation, 1 to 8 (5 to 8 swap H and W)."""
    if orientation >= 5:
        array = array.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        array = array[::-1]
    if orientation in (2, 3, 6, 7):
        array = array[:, ::-1]
    return np.ascontiguousarray(array)


def resize_photo(photo: NDArray[np.uint8] | Image.Image, size: tuple[int, int]) -> NDArray[np.uint8]:
    """(H, W, 3) uint8, or an RGB image, to (h, w, 3): bilinear, antialiased when it shrinks. size: (h, w)."""
    if not isinstance(photo, Image.Image):
        if photo.shape[:2] == tuple(size):
            return photo
        photo = Image.fromarray(photo)
    height, width = size
    return np.array(photo.resize((width, height), Image.Resampling.BILINEAR))


def resize_mask(mask: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """(H, W) of any dtype to (h, w), each pixel the value at its centre (nearest). size: (h, w)."""
    if mask.shape == tuple(size):
        return mask
    rows, columns = ((2 * np.arange(new) + 1) * old // (2 * new) for old, new in zip(mask.shape, size, strict=True))
    resized: NDArray[Any] = mask.take(rows, 0).take(columns, 1)  # a tenth of the time of both at once
    return resized


def distinct(mask: NDArray[Any]) -> NDArray[Any]:
    """The values of a mask (H, W), each once, rising: of any size in little time, since masks are made of long runs."""
    begins = [mask[:, :1].ravel(), mask[:, 1:][mask[:, 1:] != mask[:, :-1]]]
    return np.unique(np.concatenate(begins))


def write_mask(path: str | os.PathLike[str], mask: NDArray[Any]) -> None:
    """Write an (H, W) boolean or integer mask of values 0..255 as an index PNG with PALETTE, whole or not at all."""
    if mask.ndim != 2 or mask.size == 0 or mask.dtype.kind not in "bui":
        raise Error(f"A mask to write is an (H, W) boolean or integer array; given {_describe(mask)}.")
    if mask.dtype != bool and (mask.min() < 0 or mask.max() > 255):
        raise Error(f"An index PNG holds the values 0..255; the mask has {mask.min()}..{mask.max()}; renumber it.")
    image = Image.fromarray(mask.astype(np.uint8)).convert("L")
    image.putpalette(PALETTE.tobytes())
    with files.atomic(Path(path)) as temporary:
        image.save(temporary, format="PNG", **RUNS)


def encoded(picture: Image.Image, format: str, **options: Any) -> bytes:
    """The bytes of a picture's file. format: "PNG", "JPEG", … · options: of Pillow's for it."""
    file = io.BytesIO()
    picture.save(file, format=format, **options)
    return file.getvalue()


@contextmanager
def _opened(source: Any, max_pixels: int, kind: str) -> Iterator[tuple[Image.Image, str]]:
    """The image, its header read and its size checked, and the name to call it by in an Error; closed after use."""
    if isinstance(source, Image.Image):
        name = str(getattr(source, "filename", "") or f"the given {kind}")
        _check_size(source.size, max_pixels, name)
        yield source, name
        return
    if not isinstance(source, str | os.PathLike | bytes):
        raise Error(
            f"A {kind} is a path, an image file's bytes, a PIL image, an array or a tensor; given {shown(source)}."
        )
    name = f"the given {kind}" if isinstance(source, bytes) else path_of(kind, source)
    if Image.MAX_IMAGE_PIXELS and max_pixels > Image.MAX_IMAGE_PIXELS:
        # Pillow has a limit of its own, for the whole process; it must not be stricter than what was asked for.
        Image.MAX_IMAGE_PIXELS = max_pixels
    with ExitStack() as stack:
        with _explained(name, kind):
            file = io.BytesIO(source) if isinstance(source, bytes) else _regular(name, kind)
            image = stack.enter_context(_identified(stack.enter_context(file), name, kind))
        _check_size(image.size, max_pixels, name)
        yield image, name


def _regular(path: str, kind: str) -> IO[bytes]:
    """The file, opened; a pipe or a device would keep its reader waiting and is an Error."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # a folder is explained by opening it
        raise Error(f"{path} is no file but a pipe, a socket or a device; give the path of a {kind}.")
    return open(path, "rb")


def _identified(file: IO[bytes], name: str, kind: str) -> Image.Image:
    """The image, its header read."""
    try:
        image = Image.open(file, formats=_readable_formats(file))
    except UnidentifiedImageError as problem:
        raise Error(f"{name} cannot be read as a {kind}: {_what_it_is(file)}.") from problem
    if image.format == "TIFF":
        _hush_libtiff()
    return image


@cache
def _hush_libtiff() -> None:
    """Keep libtiff from writing to the terminal: what is wrong with a file comes as an exception too."""
    beside = Path(Image.__file__).parent
    for path in (*beside.parent.glob("pillow.libs/libtiff*"), *beside.glob(".dylibs/libtiff*")):
        with suppress(OSError, AttributeError):  # another build of Pillow's: then it speaks
            library = ctypes.CDLL(str(path))
            library.TIFFSetErrorHandler(None)
            library.TIFFSetWarningHandler(None)


@contextmanager
def _explained(name: str, kind: str) -> Iterator[None]:
    """Turn whatever a broken file makes Pillow raise into one sentence that names the file."""
    try:
        yield
    except Error:
        raise
    except FileNotFoundError as problem:
        raise Error(f"There is no {kind} {name}; check the path.") from problem
    except IsADirectoryError as problem:
        raise Error(f"{name} is a folder; give the path of a {kind}.") from problem
    except PermissionError as problem:
        raise Error(f"{name} may not be read; change its permissions.") from problem
    except Image.DecompressionBombError as problem:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise Error(f"{name} has more than {limit:,} pixels, which is too large to decode; shrink it.") from problem
    except MemoryError as problem:
        raise Error(f"{name} does not fit into this machine's memory; shrink it.") from problem
    except Exception as problem:
        reason = " ".join(str(getattr(problem, "strerror", None) or problem).split())
        raise Error(
            f"{name} cannot be read as a {kind}, it is damaged or cut off ({reason:.200}); replace it."
        ) from problem


def _readable_formats(file: IO[bytes]) -> list[str]:
    """The formats to try, HEIC among them where its plug-in is installed."""
    Image.init()
    if "HEIF" not in Image.OPEN and _is_heic(file):
        try:
            import pillow_heif
        except ImportError:
            pass
        else:
            pillow_heif.register_heif_opener()
    return [format for format in _FORMATS if format in Image.OPEN]


def _is_heic(file: IO[bytes]) -> bool:
    file.seek(0)
    start = file.read(12)
    file.seek(0)
    return start[4:8] == b"ftyp" and start[8:12] in _HEIC_BRANDS


def _what_it_is(file: IO[bytes]) -> str:
    """Why no format fits the file, and what to do."""
    if file.seek(0, os.SEEK_END) == 0:
        return "the file is empty (0 bytes); replace it"
    if _is_heic(file):
        return "it is HEIC, which needs a plug-in; run `pip install pillow-heif`, or save it as JPEG"
    return "its content is no image format known here; save it as JPEG or PNG"


def _check_size(size: tuple[int, int], max_pixels: int, name: str) -> None:
    """size: (width, height)."""
    width, height = size
    if width < 1 or height < 1:
        raise Error(f"{name} is {width} × {height} pixels (width × height); give at least one pixel.")
    if width * height > max_pixels:
        raise Error(
            f"{name} is {width:,} × {height:,} pixels, more than the {max_pixels:,} allowed; "
            "shrink it or raise the limit (max_pixels)."
        )
    if max(size) > MAX_SIDE:
        raise Error(f"{name} is {width:,} × {height:,} pixels; cut it into parts of at most {MAX_SIDE:,} a side.")


def _orientation(exif: Image.Exif) -> int:
    value = exif.get(_ORIENTATION_TAG, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _header_exif(image: Image.Image) -> Image.Exif:
    """The EXIF data of an image whose pixels are not decoded yet, and stay so."""
    file = getattr(image, "fp", None)
    if image.format == "PNG" and "exif" not in image.info and file is not None:
        image.info.update(_late_exif(file))
    # Not PngImageFile.getexif(), which decodes the pixels to see what comes after them.
    return Image.Image.getexif(image)


def _late_exif(file: IO[bytes]) -> dict[str, bytes]:
    """What a PNG has in an eXIf chunk, as Pillow's info, be it after the pixels; empty where there is none."""
    file.seek(8)
    while len(head := file.read(8)) == 8:
        length = int.from_bytes(head[:4], "big")
        if head[4:] == b"eXIf":
            return {"exif": b"Exif\0\0" + file.read(min(length, _EXIF_BYTES))}
        file.seek(length + 4, os.SEEK_CUR)
    return {}


def _is_deep(image: Image.Image) -> bool:
    """Whether a photograph has more than 8 bits, of which 0 is black. Asked before it is decoded: Pillow keeps 8 of
    colours, and only how they are to be decoded tells that there are more."""
    if image.mode == "CMYK":
        return False
    return image.mode.startswith("I") or any(";16" in str(tile[3]) for tile in getattr(image, "tile", ()))


def _is_faint(image: Image.Image) -> bool:
    """Whether an image that is deep has no value above TWELVE_BITS."""
    if image.mode.startswith("I"):
        return not _says_twelve_bits(image) and int(np.asarray(image).max()) <= TWELVE_BITS
    # The upper half of the 16 bits is what is kept of colours.
    colours = (image.getchannel(band) for band in image.getbands() if band not in "Aa")
    return all(int(np.asarray(channel).max()) <= TWELVE_BITS >> 8 for channel in colours)


def _says_twelve_bits(image: Image.Image) -> bool:
    """Whether it is a TIFF whose header says so: its values are no guess then."""
    return image.format == "TIFF" and getattr(image, "tag_v2", {}).get(_BITS_TAG) == (12,)


def _to_rgb(image: Image.Image, name: str) -> Image.Image:
    """An image in any of Pillow's modes in RGB, as stored."""
    if image.mode.startswith("I") or image.mode == "F":
        top = 1 if image.mode == "F" else TWELVE_BITS if _says_twelve_bits(image) else 65535
        image = Image.fromarray(_deep_to_uint8(np.asarray(image), top, name))
    elif image.mode == "LAB":
        lab, srgb = ImageCms.createProfile("LAB"), ImageCms.createProfile("sRGB")
        image = ImageCms.profileToProfile(image, lab, srgb, outputMode="RGB") or image
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def _deep_to_uint8(values: NDArray[Any], top: int, name: str) -> NDArray[np.uint8]:
    """Grey of more than 8 bits to 8. top: what is white, and the largest value that there may be."""
    # Written so that NaN fails too.
    if not (values.min() >= 0 and values.max() <= top):
        raise Error(
            f"{name} has grey values of {values.min()} to {values.max()}, expected 0 to {top}; "
            "save it with 8 or 16 bits."
        )
    return np.round(values.astype(np.float32) * (255.0 / top)).astype(np.uint8)


def _is_tensor(source: object) -> bool:
    # A tensor can only be here if torch was imported; importing it for a path would cost seconds.
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.Tensor)


def _photo_of_array(array: NDArray[Any], max_pixels: int) -> NDArray[np.uint8]:
    array = np.asarray(array)  # a matrix would stay two-dimensional, whatever is done to it
    array = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (2, 3, 4))
    if not fits or not (array.dtype == np.uint8 or array.dtype.kind == "f"):
        raise Error(
            "A photograph as an array is (H, W), (H, W, 3) or with alpha (H, W, 4), uint8 or float in [0, 1]; "
            f"given {_describe(array)}."
        )
    _check_size((array.shape[1], array.shape[0]), max_pixels, "the given photograph")
    if array.dtype != np.uint8:
        array = _fractions_to_uint8(array)
    if array.ndim == 2:
        return np.repeat(array[:, :, None], 3, axis=2)
    if array.shape[2] == 3:
        return np.ascontiguousarray(array)
    return np.array(_to_rgb(Image.fromarray(np.ascontiguousarray(array)), "the given photograph"))


def _fractions_to_uint8(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Values in [0, 1] to 0..255."""
    # Written so that NaN fails too.
    if not (array.min() >= 0 and array.max() <= 1):
        raise Error(
            f"A photograph of fractions has values in [0, 1]; given {array.min():g} to {array.max():g}; "
            "pass it before it is normalised, or as uint8."
        )
    return (array.astype(np.float32) * np.float32(255)).round().astype(np.uint8)


def _photo_of_tensor(tensor: Any, max_pixels: int) -> NDArray[np.uint8]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    channels = _is_plain(tensor) and tensor.ndim == 3 and tensor.shape[0] in (1, 2, 3, 4)
    if not channels or not (dtype == "uint8" or tensor.is_floating_point()):
        raise Error(
            f"A photograph as a tensor is dense, (3, H, W), uint8 or float in [0, 1]; given {_describe_tensor(tensor)}."
        )
    _check_size((tensor.shape[2], tensor.shape[1]), max_pixels, "the given photograph")
    tensor = tensor.detach().cpu()
    tensor = tensor if dtype == "uint8" else tensor.float()  # NumPy has no bfloat16
    return _photo_of_array(tensor.permute(1, 2, 0).numpy(), max_pixels)


def _is_plain(tensor: Any) -> bool:
    """Whether a tensor has numbers in rows and columns: not sparse, quantised, nested or without memory."""
    return (
        str(tensor.layout) == "torch.strided"
        and not tensor.is_quantized
        and not tensor.is_nested
        and tensor.device.type != "meta"
    )


def _raw_mask(source: Any, max_pixels: int) -> tuple[NDArray[Any], str]:
    """The mask's values before its size is compared, and the name to call it by in an Error."""
    if _is_tensor(source):
        source = _array_of_tensor(source)
    if isinstance(source, np.ndarray):
        return _mask_of_array(source, max_pixels), "the given mask"
    with _opened(source, max_pixels, "mask") as (image, name), _explained(name, "mask"):
        if image.format in ("JPEG", "MPO"):
            raise Error(f"{name} is a JPEG, whose compression changes a mask's values; save masks as PNG.")
        image.load()
        return orient(_mask_values(image, name), _orientation(image.getexif())), name


def _array_of_tensor(tensor: Any) -> NDArray[Any]:
    """A tensor of whole numbers or truth values as an array."""
    if not _is_plain(tensor) or tensor.is_floating_point() or tensor.is_complex():
        raise Error(
            f"A mask as a tensor is dense, (H, W), boolean or integer; given {_describe_tensor(tensor)}; "
            "for fractions, compare with a threshold first."
        )
    array: NDArray[Any] = tensor.detach().cpu().numpy()
    return array


def _mask_of_array(array: NDArray[Any], max_pixels: int) -> NDArray[Any]:
    array = np.asarray(array)
    colours = array.ndim == 3 and array.shape[2] == 3 and array.dtype == np.uint8
    if not colours and (array.ndim != 2 or array.dtype.kind not in "bui"):
        raise Error(
            f"A mask as an array is (H, W), boolean or integer; given {_describe(array)}; "
            "for fractions, compare with a threshold first."
        )
    _check_size((array.shape[1], array.shape[0]), max_pixels, "the given mask")
    if colours:
        return pack_colours(array)
    if array.dtype == bool:
        return array.astype(np.uint8)
    return array.astype(np.int64) if array.dtype == np.uint32 else array  # uint32 is for colours


def _mask_values(image: Image.Image, name: str) -> NDArray[Any]:
    """(H, W) integers of an image in any of Pillow's modes, as stored."""
    if image.mode == "1":
        return np.asarray(image).astype(np.uint8)
    if image.mode in ("L", "P") or image.mode.startswith("I"):
        values = np.asarray(image)
        return values.astype(values.dtype.newbyteorder("="))
    if image.mode == "F":
        values = np.asarray(image)
        whole: NDArray[np.int32] = np.nan_to_num(values).astype(np.int32)
        if not np.array_equal(whole, values):
            raise Error(f"{name} has fractions for values; save the mask with whole numbers.")
        return whole
    if image.mode in ("LA", "PA"):
        index, alpha = np.moveaxis(np.asarray(image), 2, 0)
        return np.where(alpha > 0, index, 0).astype(np.uint8)
    return _packed_image(image)


def _packed_image(image: Image.Image) -> NDArray[np.uint32]:
    """(H, W) uint32 0xRRGGBB of an image of colours, 0 where it is fully transparent; in bands, to save memory."""
    transparent = image.mode in ("RGBA", "RGBa")
    width, height = image.size
    packed = np.empty((height, width), dtype=np.uint32)
    rows = max(1, _BAND // width)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        pixels = np.asarray(image.crop((0, top, width, bottom)).convert("RGBA" if transparent else "RGB"))
        packed[top:bottom] = pack_colours(pixels)
        if transparent:
            packed[top:bottom][pixels[:, :, 3] == 0] = 0
    return packed


def pack_colours(colours: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """(H, W, ≥3) uint8 to (H, W) uint32: 0xRRGGBB."""
    packed = colours[:, :, 0].astype(np.uint32)
    for channel in (1, 2):
        packed <<= 8
        packed |= colours[:, :, channel]
    return packed


def _describe(array: NDArray[Any]) -> str:
    return f"{array.shape!s:.100} {array.dtype!s:.100}"


def _describe_tensor(tensor: Any) -> str:
    shape = "nested" if tensor.is_nested else f"{tuple(tensor.shape)!s:.100}"
    return f"{shape} {tensor.dtype}, {tensor.layout} on {tensor.device}".replace("torch.", "")
