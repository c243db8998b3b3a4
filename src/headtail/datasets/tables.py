"""One way to look at tables, whether delimited text, Parquet or a pandas DataFrame."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headtail.datasets.parquet import read_columns
from headtail.datasets.textfile import SEPARATORS, TextTable, has_link_header, suffix_of
from headtail.errors import DataError, did_you_mean
from headtail.given import no_file

PARQUET = (".parquet", ".pq")


class Columns(Protocol):
    """What has columns to choose from."""

    @property
    def source(self) -> str:
        """Where they are from, for messages."""

    @property
    def columns(self) -> list[str]:
        """Their names."""


class Table(Columns, Protocol):
    """Named columns that are loaded on demand; `where` names the place of a row for a message."""

    source: str
    columns: list[str]

    def load(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Returns the named columns."""

    def where(self, row: int) -> str:
        """Returns the line or row in words."""


class ParquetTable:
    """A Parquet file; columns keep their types."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        self._path = path
        if not path.is_file():
            raise no_file(path)
        try:
            with pq.ParquetFile(path) as file:
                schema, rows = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{path} is not a readable Parquet file: {error}") from error
        self.columns = list(schema.names)
        if rows == 0:
            raise DataError(f"{path} is empty: it holds no rows")

    def load(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Returns the named columns."""
        try:
            table = read_columns(self._path, names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DataError(f"{self.source} is damaged: {error}") from error
        return [table[name] for name in names]

    def where(self, row: int) -> str:
        """Returns the row, counted from 0."""
        return f"row {row} (counted from 0)"


class FrameTable:
    """A pandas DataFrame; columns are known by the text of their labels."""

    def __init__(self, frame: pd.DataFrame, source: str = "the DataFrame") -> None:
        self.source = source
        self.columns = [str(label) for label in frame.columns]
        self._frame = frame
        if len(frame) == 0:
            raise DataError(f"{source} is empty: it holds no rows")

    def load(self, names: Sequence[str]) -> list[pa.ChunkedArray]:
        """Returns the named columns."""
        return [self._column(name) for name in names]

    def where(self, row: int) -> str:
        """Returns the row, counted from 0."""
        return f"row {row} (counted from 0)"

    def _column(self, name: str) -> pa.ChunkedArray:
        series = self._frame.iloc[:, self.columns.index(name)]
        try:
            array = pa.Array.from_pandas(series)
        except (pa.ArrowException, OverflowError) as error:
            raise DataError(
                f"{self.source}: column {name!r} mixes types ({error}); convert it to one, for example by astype(str)"
            ) from error
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def open_table(
    source: str | Path | pd.DataFrame, has_header: Callable[[Sequence[str]], bool] = has_link_header
) -> Table:
    """Returns the table in a file or DataFrame; `has_header` judges the first row of a text file."""
    if isinstance(source, pd.DataFrame):
        table: Table = FrameTable(source)
    elif not isinstance(source, str | Path):
        raise DataError(f"a table cannot be read from {type(source).__name__}; give a path or a DataFrame")
    elif suffix_of(Path(source)) in PARQUET:
        table = ParquetTable(Path(source))
    elif suffix_of(Path(source)) in SEPARATORS:
        table = TextTable(Path(source), has_header)
    else:
        known = ", ".join([*SEPARATORS, *PARQUET])
        raise DataError(f"{source}: no table format is known by this suffix; use one of {known}, or .gz after it")
    twice = [name for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        raise DataError(f"{table.source}: two columns are called {twice[0]!r}; rename one")
    return table


def pick_column(table: Columns, wanted: str | None, option: str, taken: Sequence[str | None] = ()) -> str:
    """Returns the column `wanted`, or by default the first that no other option has `taken`."""
    if wanted is not None:
        if wanted not in table.columns:
            raise DataError(
                f"{table.source} has no column {wanted!r} ({option}); {did_you_mean(wanted, table.columns)}"
            )
        return wanted
    free = [name for name in table.columns if name not in taken]
    if not free:
        raise DataError(
            f"{table.source} has only {len(table.columns)} column(s) and none is left for {option}; "
            "columns are separated by commas in .csv, tabs in .tsv, white space in .txt and .edges files"
        )
    if not free[0] or free[0].startswith("__index_level_"):
        raise DataError(
            f"{table.source}: the column that would serve as {option} has no name (a saved pandas index?); "
            f"name {option}, or save without the index"
        )
    return free[0]
