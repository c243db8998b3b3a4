"""Opens npy and npz files without ever unpickling; what cannot be read is refused in a sentence."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from headtail.errors import DataError

Array = NDArray[np.generic]


def read_npy(path: Path) -> Array:
    """Returns the array of a `.npy` file."""
    with _sentences(path):
        array = np.load(path, allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an npz archive under another name; rename it to end in .npz")
    return array


def read_npz_arrays(path: Path) -> dict[str, Array]:
    """Returns the arrays of a `.npz` file by name."""
    with _sentences(path), _archive(path) as archive:
        return {name: archive[name] for name in archive.files}


def npz_names(path: Path) -> list[str]:
    """Returns the names of the arrays in a `.npz` file without reading them."""
    with _sentences(path), _archive(path) as archive:
        return list(archive.files)


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


def _archive(path: Path) -> NpzFile:
    opened = np.load(path, allow_pickle=False)
    if not isinstance(opened, NpzFile):
        raise DataError(f"{path} is a single npy array under another name; rename it to end in .npy")
    return opened


@contextmanager
def _sentences(path: Path) -> Iterator[None]:
    """Turns what numpy and zipfile raise about a damaged file into a DataError."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(
            f"{path} is damaged or holds Python objects, which are never unpickled ({error}); save it again "
            "with numpy.save or numpy.savez from plain numeric arrays"
        ) from error
