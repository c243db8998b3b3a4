"""Numbers nodes 0 … N − 1 from the ids users have.

Without a node table nodes are numbered in the sorted order of their ids, so the order of the links in a file
does not matter. A node table gives its own order. With a bare feature matrix integer ids are its row numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from headtail.datasets.raw import Ints
from headtail.datasets.tables import Table
from headtail.errors import DataError


def as_ids(table: Table, column: str, values: pa.ChunkedArray) -> pd.Index:
    """Returns a column of ids as int64 if every one is an integer written plainly, else as strings.

    "007" and "+7" are no plain integers: they would not come back as they were.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values, kind = values.cast(kind.value_type), kind.value_type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not text and not pa.types.is_integer(kind):
        raise DataError(f"{table.source}: ids in column {column!r} are {kind}; convert them to integers or strings")
    empty = pc.fill_null(pc.equal(values, ""), True) if text else pc.is_null(values)
    row = pc.index(empty, True).as_py()
    if row >= 0:
        raise DataError(
            f"{table.source}, {table.where(row)}: the id in column {column!r} is empty; remove the row or name the node"
        )
    try:
        integers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        integers = None
    if integers is None or (text and not pc.all(pc.equal(integers.cast(kind), values)).as_py()):
        ids: pd.Index = pd.Index(values.cast(pa.large_string()).to_pandas())
    else:
        ids = pd.Index(integers.to_numpy())
    return ids


def harmonise(columns: Sequence[pd.Index]) -> list[pd.Index]:
    """Returns the columns as they are if all hold integers, else all as strings."""
    if all(is_integer(ids) for ids in columns):
        return list(columns)
    return [ids.astype(str) if is_integer(ids) else ids for ids in columns]


def is_integer(ids: pd.Index) -> bool:
    """Whether ids are int64 rather than strings."""
    return bool(pd.api.types.is_integer_dtype(ids.dtype))


@dataclass(frozen=True)
class Numbering:
    """How many nodes there are, their ids (None where these are the numbers), each column as numbers."""

    num_nodes: int
    names: pd.Index | None
    numbers: list[Ints]


def number_sorted(columns: Sequence[pd.Index]) -> Numbering:
    """Numbers the nodes that occur in `columns` in the order of their ids."""
    columns = harmonise(columns)
    codes, names = pd.factorize(_joined(columns), sort=True)
    plain = is_integer(names) and names[0] == 0 and names[-1] == len(names) - 1
    return Numbering(len(names), None if plain else names, _parted(codes, columns))


def number_by_table(columns: Sequence[pd.Index], nodes: pd.Index, source: str) -> Numbering:
    """Numbers nodes by their row in a node table; every id must be there."""
    *columns, nodes = harmonise([*columns, nodes])
    codes = nodes.get_indexer(_joined(columns))
    missing = codes < 0
    if missing.any():
        absent = pd.unique(_joined(columns)[missing])
        raise DataError(
            f"{source} lacks {len(absent)} nodes that occur in links, first {_shown(absent)}; "
            "add a row for each, or remove their links"
        )
    plain = is_integer(nodes) and bool((nodes.to_numpy() == np.arange(len(nodes))).all())
    return Numbering(len(nodes), None if plain else nodes, _parted(codes, columns))


def number_by_rows(columns: Sequence[pd.Index], num_rows: int, source: str, matrix: str) -> Numbering:
    """Takes ids as row numbers of a feature matrix of `num_rows` rows."""
    columns = harmonise(columns)
    if not all(is_integer(ids) for ids in columns):
        raise DataError(
            f"{source} has ids such as {columns[0][0]!r}, and {matrix} does not say which row is whose; "
            "give nodes (--nodes), a table of the ids in row order, or features as CSV or Parquet with an id column"
        )
    for ids in columns:
        wrong = (ids < 0) | (ids >= num_rows)
        if wrong.any():
            raise DataError(
                f"{source} links node {ids[int(np.argmax(wrong))]}, but {matrix} has {num_rows} rows, for "
                f"nodes 0 … {num_rows - 1}; if ids are not rows, give nodes (--nodes), a table of ids in row order"
            )
    return Numbering(num_rows, None, [np.asarray(ids, dtype=np.int64) for ids in columns])


def check_unique(table: Table, column: str, ids: pd.Index) -> None:
    """Refuses a table in which an id has two rows."""
    again = ids.duplicated()
    if again.any():
        row = int(np.argmax(again))
        raise DataError(
            f"{table.source}, {table.where(row)}: id {ids[row]!r} in column {column!r} occurs a second time; "
            "a node has one row"
        )


def align_rows(table: Table, ids: pd.Index, names: pd.Index) -> Ints:
    """Returns the row [N] of each node in a table that must have exactly these nodes."""
    ids, names = harmonise([ids, names])
    rows = ids.get_indexer(names)
    if (rows < 0).any():
        absent = names[rows < 0]
        raise DataError(
            f"{table.source} lacks {len(absent)} of {len(names)} nodes, first {_shown(absent)}; add a row for each"
        )
    if len(ids) > len(names):
        extra = ids[~ids.isin(names)]
        raise DataError(
            f"{table.source} has {len(extra)} nodes that occur in no link, first {_shown(extra)}; "
            "remove them, or give nodes (--nodes), a table of all nodes, to keep them without links"
        )
    return rows.astype(np.int64)


def _joined(columns: Sequence[pd.Index]) -> pd.Index:
    first, *rest = columns
    return first.append(rest)


def _parted(codes: np.ndarray[tuple[int, ...], np.dtype[np.intp]], columns: Sequence[pd.Index]) -> list[Ints]:
    ends = np.cumsum([len(ids) for ids in columns])[:-1]
    return [part.astype(np.int64) for part in np.split(codes, ends)]


def _shown(ids: pd.Index) -> str:
    return ", ".join(repr(name) for name in ids[:3].tolist())
