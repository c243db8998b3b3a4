"""Reads links from tables: two columns of ids and, where links are dated, one of times."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from headtail.datasets.ids import as_ids, harmonise
from headtail.datasets.raw import Ints
from headtail.datasets.tables import open_table, pick_column
from headtail.datasets.times import as_times
from headtail.errors import DataError


@dataclass(frozen=True)
class LinkColumns:
    """Which columns hold heads, tails and times; by default the first two, and no times."""

    source: str | None = None
    target: str | None = None
    time: str | None = None


@dataclass(frozen=True)
class LinkTable:
    """Links by the ids of the user; `heads` and `tails` [E] are both integers or both strings."""

    source: str
    heads: pd.Index
    tails: pd.Index
    times: Ints | None = None


def read_links(source: str | Path | pd.DataFrame, columns: LinkColumns | None = None) -> LinkTable:
    """Reads links from CSV, TSV, white-space separated text, Parquet, or a DataFrame.

    A text file has a header unless the first two fields of its first row are both integers; without one its
    columns are called "1", "2", …. Columns that are not named are the first ones that are left.

    Raises:
        DataError: If the file cannot be read, a column is missing, an id is empty, a time is none.
    """
    columns = columns or LinkColumns()
    table = open_table(source)
    named = [columns.source, columns.target, columns.time]
    head = pick_column(table, columns.source, "source_column", named)
    tail = pick_column(table, columns.target, "target_column", [head, *named])
    time = None if columns.time is None else pick_column(table, columns.time, "time_column")
    chosen = [head, tail] if time is None else [head, tail, time]
    if len(set(chosen)) < len(chosen):
        raise DataError(f"{table.source}: source, target and time must be different columns, not {', '.join(chosen)}")
    loaded = table.load(chosen)
    heads, tails = harmonise([as_ids(table, head, loaded[0]), as_ids(table, tail, loaded[1])])
    times = None if time is None else as_times(table, time, loaded[2])
    return LinkTable(table.source, heads, tails, times)
