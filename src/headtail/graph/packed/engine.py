"""DuckDB, which reads tables and sorts what does not fit into memory."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headtail.errors import DataError, HeadtailError

Ints: TypeAlias = NDArray[np.int64]
# Rows that are handed over at a time.
BLOCK_ROWS = 2**20


class Engine:
    """A connection without a database: it reads files, and writes what does not fit into memory to a folder.

    Args:
        memory: bytes that it may use, about.
        spill: folder for what does not fit.
    """

    def __init__(self, memory: int, spill: Path) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise HeadtailError(
                "packing sorts links with DuckDB, which is not installed; install it: pip install 'headtail[pack]'."
            ) from error
        self._error = duckdb.Error
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": f"{max(memory, 2**27) // 2**20}MiB",
            "temp_directory": str(spill),
            # Files are on this machine: nothing is fetched to read them.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        self._connection = duckdb.connect(config=settings)
        self._connection.execute("SET enable_progress_bar = false")

    def close(self) -> None:
        """Frees what it holds."""
        self._connection.close()

    def row(self, query: str) -> tuple[object, ...]:
        """Returns the one row of a query's answer."""
        with self._sentences():
            (found,) = self._connection.execute(query).fetchall()
        return tuple(found)

    def run(self, query: str) -> None:
        """Runs a query that has no answer."""
        with self._sentences():
            self._connection.execute(query)

    def arrays(self, query: str) -> Iterator[list[Ints]]:
        """Yields the integer columns of a query's answer, so many rows at a time."""
        with self._sentences():
            reader = self._connection.sql(query).to_arrow_reader(BLOCK_ROWS)
        while True:
            with self._sentences():
                batch = next(reader, None)
            if batch is None:
                return
            yield [np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64) for column in batch.columns]

    def sorted(self, blocks: Iterable[Ints]) -> Iterator[Ints]:
        """Yields all numbers of the blocks in ascending order."""
        schema = pa.schema([("key", pa.int64())])
        batches = (pa.record_batch([pa.array(block)], schema=schema) for block in blocks)
        self._connection.register("fed", pa.RecordBatchReader.from_batches(schema, batches))
        try:
            for (keys,) in self.arrays("SELECT key FROM fed ORDER BY key"):
                yield keys
        finally:
            self._connection.unregister("fed")

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        """Turns what the engine raises into an error for the user."""
        try:
            yield
        except self._error as error:
            first = " ".join(str(error).split("Possible")[0].split())[:300]
            if "No space left" in str(error) or "max_temp_directory_size" in str(error):
                raise HeadtailError(
                    f"the disk is full ({first}); free some space and run the command again, it goes on where it was."
                ) from error
            if "Out of Memory" in str(error):
                raise HeadtailError(f"packing needs more memory ({first}); raise --memory.") from error
            raise DataError(f"the links cannot be read: {first}") from error


def quoted(name: str) -> str:
    """Returns the name of a column as SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Returns a text as SQL."""
    return "'" + value.replace("'", "''") + "'"
