"""Reads node features: a bare matrix, whose rows are the nodes in order, or a table matched by node id."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from headtail.datasets.arrays import Array, npz_headers, read_npy, read_npz_arrays, to_numpy
from headtail.datasets.ids import align_rows, as_ids, check_unique
from headtail.datasets.raw import Floats
from headtail.datasets.tables import PARQUET, Table, open_table, pick_column
from headtail.datasets.textfile import SEPARATORS, suffix_of
from headtail.errors import DataError

FeatureSource: TypeAlias = str | Path | pd.DataFrame | ArrayLike
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


def read_matrix(source: FeatureSource) -> tuple[Array, str] | None:
    """Returns a bare matrix [R, d] and where it is from, or None if `source` is a table with ids."""
    if isinstance(source, pd.DataFrame):
        return None
    if not isinstance(source, str | Path):
        return _checked(to_numpy(source), "the feature matrix"), "the feature matrix"
    path = Path(source)
    suffix = suffix_of(path)
    if suffix == ".npy":
        return _checked(read_npy(path), str(path)), str(path)
    if suffix == ".npz":
        return _checked(_only_matrix(path), str(path)), str(path)
    if suffix not in (*SEPARATORS, *PARQUET):
        known = ", ".join((".npy", ".npz", *SEPARATORS, *PARQUET))
        raise DataError(f"features {path}: no format is known by this suffix; use one of {known}")
    return None


def matrix_features(matrix: Array, source: str, num_nodes: int, names: pd.Index | None = None) -> Floats:
    """Returns a bare matrix as float32 features [N, d], which must have a row for every node."""
    matrix = _checked(matrix, source)
    if len(matrix) != num_nodes:
        raise DataError(
            f"{source} has {len(matrix)} rows, but the graph has {num_nodes} nodes; "
            "give one row for every node, in node order"
        )
    return _finite(matrix, source, names)


def table_features(
    source: str | Path | pd.DataFrame, num_nodes: int, names: pd.Index | None, node_column: str | None = None
) -> Floats:
    """Returns float32 features [N, d] from a table with an id column (the first by default), in any order."""
    table = open_table(source, has_header=_has_feature_header)
    key = pick_column(table, node_column, "node_column")
    columns = [name for name in table.columns if name != key]
    if not columns:
        raise DataError(f"{table.source} has only the id column {key!r}; add columns of numbers as features")
    loaded = table.load([key, *columns])
    ids = as_ids(table, key, loaded[0])
    check_unique(table, key, ids)
    nodes: pd.Index = pd.RangeIndex(num_nodes) if names is None else names
    rows = align_rows(table, ids, nodes)
    matrix = np.stack([_numbers(table, name, values) for name, values in zip(columns, loaded[1:], strict=True)], axis=1)
    return _finite(matrix[rows], table.source, nodes, columns)


def _has_feature_header(first_row: Sequence[str]) -> bool:
    """Whether the first row names columns: it does unless all that follows the id are numbers."""
    return len(first_row) < 2 or not all(_NUMBER.fullmatch(field) for field in first_row[1:])


def _numbers(table: Table, column: str, values: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Returns a column as float32; missing numbers of typed columns become NaN, to be refused later."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not (text or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"{table.source}: feature column {column!r} holds {kind}, expected numbers; leave it out, "
            "or give the table as nodes (--nodes), which makes features of every kind of column"
        )
    try:
        numbers = values.cast(pa.float64() if text else pa.float32(), safe=False)
    except pa.ArrowInvalid as error:
        series = values.to_pandas()
        row = int(np.argmax(pd.to_numeric(series, errors="coerce").isna().to_numpy()))
        raise DataError(
            f"{table.source}, {table.where(row)}: {series.iloc[row]!r} in column {column!r} is no number; "
            "features are numbers; give the table as nodes (--nodes) to have text and categories made into features"
        ) from error
    return np.asarray(numbers.to_numpy(), dtype=np.float32)


def _only_matrix(path: Path) -> Array:
    """Returns array `x` of an npz, or its only matrix."""
    headers = npz_headers(path)
    matrices = ["x"] if "x" in headers else [name for name, header in headers.items() if len(header.shape) == 2]
    if len(matrices) != 1:
        raise DataError(
            f"{path} holds {len(matrices)} matrices ({', '.join(sorted(headers))}) and none is called 'x'; "
            "name the features 'x'"
        )
    return read_npz_arrays(path, matrices)[matrices[0]]


def _checked(matrix: Array, source: str) -> Array:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise DataError(f"{source} has shape {matrix.shape}, expected [nodes, features]")
    if matrix.dtype.kind not in "fiub":
        raise DataError(f"{source} holds {matrix.dtype}, expected numbers")
    return matrix


def _finite(matrix: Array, source: str, names: pd.Index | None = None, columns: Sequence[str] | None = None) -> Floats:
    """Returns float32 features, refusing NaN and infinity with the node and column of the first."""
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(matrix, dtype=np.float32)
    wrong = ~np.isfinite(features)
    if not wrong.any():
        return features
    row, position = (int(index) for index in np.argwhere(wrong)[0])
    node = row if names is None else names[row]
    column = position if columns is None else columns[position]
    raise DataError(
        f"{source}: {int(wrong.sum())} feature values are NaN, infinite or too large, the first for "
        f"node {node!r} in column {column!r}; replace them, for example by the mean of their column"
    )
