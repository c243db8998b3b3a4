"""Opens text files, compressed or not, and stops unpacking what would not fit into memory."""

import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import IO, cast

from headtail.errors import DataError
from headtail.given import no_file
from headtail.limits import refuse_beyond_memory

# Compressed files carry a second suffix: links.csv.gz.
COMPRESSED = (".gz", ".xz")
_BLOCK_BYTES = 16 << 20


@contextmanager
def unpacked(path: Path, copies: int) -> Iterator["TextStream"]:
    """Yields the unpacked bytes of a file as a stream.

    Args:
        path: a file, compressed if its suffix says so.
        copies: how often the bytes will be in memory, beside those that were read already.

    Raises:
        DataError: the file is missing, damaged, or too large for memory.
    """
    try:
        with _open(path) as stream:
            yield TextStream(path, stream, copies)
    except FileNotFoundError as error:
        raise no_file(path) from error
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or not a {path.suffix} file: {error}") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


class TextStream(BufferedIOBase):
    """Bytes that are counted while they are read, so that nobody waits for the end of what has none."""

    def __init__(self, path: Path, stream: IO[bytes], copies: int) -> None:
        self._path, self._stream, self._copies, self._count = path, stream, copies, 0
        self._compressed = path.suffix.lower() in COMPRESSED
        if not self._compressed:
            refuse_beyond_memory(str(path), (1 + copies) * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns so many bytes, or all that are left.

        Raises:
            DataError: what has been read so far cannot be held.
        """
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(_BLOCK_BYTES), b""))
        block = self._stream.read(size)
        self._count += len(block)
        if self._compressed:
            refuse_beyond_memory(f"{self._path}, unpacked,", self._copies * self._count)
        return block


def _open(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.suffix.lower() == ".xz":
        return cast(IO[bytes], lzma.open(path, "rb"))
    return path.open("rb")
