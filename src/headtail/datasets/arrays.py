"""Opens npy and npz files without ever unpickling; what cannot be read is refused in a sentence.

A header may claim any size, and an archive may unpack to a thousand times its own: both are looked at before anything
is allocated.
"""

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from lzma import LZMAError
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from headtail.errors import DataError
from headtail.given import no_file
from headtail.limits import refuse_beyond_memory

Array = NDArray[np.generic]

_ARCHIVE = b"PK\x03\x04"
_SUFFIX = ".npy"
_READ_HEADER: dict[tuple[int, int], Callable[[IO[bytes]], tuple[Any, ...]]] = {
    (1, 0): npy.read_array_header_1_0,
    (2, 0): npy.read_array_header_2_0,
}


class Header(NamedTuple):
    """What a file says about an array."""

    shape: tuple[int, ...]
    num_bytes: int


def read_npy(path: Path) -> Array:
    """Returns the array of a `.npy` file."""
    with _sentences(path), path.open("rb") as file:
        if file.read(len(_ARCHIVE)) == _ARCHIVE:
            raise DataError(f"{path} is an npz archive under another name; rename it to end in .npz")
        file.seek(0)
        header = _read_header(file, path.stat().st_size)
        refuse_beyond_memory(str(path), header.num_bytes)
        return cast(Array, np.load(path, allow_pickle=False))


def read_npz_arrays(path: Path, wanted: Iterable[str] | None = None) -> dict[str, Array]:
    """Returns the arrays of a `.npz` file by name: those that are `wanted`, or all."""
    headers = npz_headers(path)
    names = list(headers) if wanted is None else [name for name in wanted if name in headers]
    refuse_beyond_memory(f"{path}, unpacked,", sum(headers[name].num_bytes for name in names))
    with _sentences(path), zipfile.ZipFile(path) as archive:
        return {name: _member(archive, name) for name in names}


def npz_headers(path: Path) -> dict[str, Header]:
    """Returns what a `.npz` file says about its arrays, by name, without reading them."""
    with _sentences(path), path.open("rb") as file:
        if file.read(len(npy.MAGIC_PREFIX)) == npy.MAGIC_PREFIX:
            raise DataError(f"{path} is a single npy array under another name; rename it to end in .npy")
        headers = {}
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if not member.filename.endswith(_SUFFIX):
                    raise ValueError(f"{member.filename!r} in it is no array")
                with archive.open(member) as stream:
                    headers[member.filename.removesuffix(_SUFFIX)] = _read_header(stream, member.file_size)
        return headers


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name + _SUFFIX) as stream:
        return cast(Array, npy.read_array(stream, allow_pickle=False))


def _read_header(stream: IO[bytes], size: int) -> Header:
    """Reads the header of an array in a file of `size` bytes, which must hold what it claims.

    Raises:
        ValueError: it does not, or holds Python objects.
    """
    version = npy.read_magic(stream)
    if version not in _READ_HEADER:
        raise ValueError(f"format version {version} is not that of plain arrays")
    shape, _, dtype = _READ_HEADER[version](stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(length < 0 for length in shape):
        raise ValueError(f"a shape of {shape} is none")
    count = math.prod(shape)
    claimed, there = count * dtype.itemsize, size - stream.tell()
    if claimed > there or (count and not dtype.itemsize):
        raise ValueError(f"its header claims {count:,} values of {dtype}, but {there:,} bytes follow")
    return Header(shape, claimed)


def to_numpy(source: object) -> Array:
    """Returns an array, or a tensor of torch of whatever device, layout and precision, as numpy array."""
    if not hasattr(source, "detach"):
        try:
            return np.asarray(source)
        except ValueError as error:
            raise DataError(f"{type(source).__name__} is no array: {error}") from error
    # No import of torch: whoever holds a tensor has it, and nobody else needs it here.
    tensor = cast(Any, source).detach().cpu()
    if str(tensor.layout) != "torch.strided":
        tensor = tensor.to_dense()
    # numpy has no bfloat16.
    return cast(Array, (tensor.float() if tensor.is_floating_point() else tensor).numpy())


# What numpy and zipfile stumble over in a damaged file; a header is read as Python literals.
STUMBLES = (
    ValueError,
    EOFError,
    KeyError,
    TypeError,
    SyntaxError,
    RecursionError,
    RuntimeError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    LZMAError,
    NotImplementedError,
)


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turns what numpy and zipfile raise about a damaged file into a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise no_file(path) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except STUMBLES as error:
        raise DataError(
            f"{path} is damaged or holds Python objects, which are never unpickled ({str(error)[:200]}); save it again "
            "with numpy.save or numpy.savez from plain numeric arrays"
        ) from error
