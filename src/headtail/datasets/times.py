"""Turns a column of times into int64: whole numbers as they are, dates as seconds since 1970 (UTC)."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from headtail.datasets.raw import Ints
from headtail.datasets.tables import Table
from headtail.errors import DataError


def as_times(table: Table, column: str, values: pa.ChunkedArray) -> Ints:
    """Returns times [E] of a column of integers, whole floats, dates or ISO 8601 texts.

    Fractions of a second of dates are cut off. Numbers with a fraction are refused: the unit to scale them to
    is the user's to choose.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        values = values.cast(kind.value_type)
        kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _from_text(table, column, values)
    _refuse_first(table, column, pc.is_null(values), "is empty", "remove the link or date it")
    if pa.types.is_integer(kind):
        return _integers(values)
    if pa.types.is_floating(kind):
        return _from_floats(table, column, values.to_numpy().astype(np.float64))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _seconds(pd.Series(values.cast(pa.timestamp("us")).to_numpy()))
    raise DataError(f"{table.source}: time column {column!r} holds {kind}; expected integers or dates")


def _from_text(table: Table, column: str, values: pa.ChunkedArray) -> Ints:
    empty = pc.fill_null(pc.equal(values, ""), True)
    _refuse_first(table, column, empty, "is empty", "remove the link or date it")
    try:
        return _integers(values)
    except pa.ArrowInvalid:
        pass
    try:
        return _from_floats(table, column, values.cast(pa.float64()).to_numpy())
    except pa.ArrowInvalid:
        pass
    dates = pd.Series(pd.to_datetime(values.to_pandas(), format="ISO8601", utc=True, errors="coerce"))
    wrong = pa.chunked_array([pa.array(dates.isna().to_numpy())])
    _refuse_first(
        table,
        column,
        wrong,
        "is no time",
        "write whole numbers, or ISO dates such as 2024-05-31, throughout",
        values,
    )
    return _seconds(dates.dt.tz_localize(None))


def _from_floats(table: Table, column: str, values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Ints:
    whole = np.isfinite(values) & (values == np.trunc(values)) & (np.abs(values) < 2**63)
    if not whole.all():
        row = int(np.argmin(whole))
        raise DataError(
            f"{table.source}, {table.where(row)}: time {values[row]} in column {column!r} is no whole "
            "number of 64 bits; scale the times, for example from seconds to milliseconds"
        )
    return values.astype(np.int64)


def _integers(values: pa.ChunkedArray) -> Ints:
    return np.asarray(values.cast(pa.int64()).to_numpy(), dtype=np.int64)


def _seconds(dates: "pd.Series[pd.Timestamp]") -> Ints:
    return dates.to_numpy().astype("datetime64[s]").astype(np.int64)


def _refuse_first(
    table: Table,
    column: str,
    wrong: pa.ChunkedArray,
    what: str,
    remedy: str,
    values: pa.ChunkedArray | None = None,
) -> None:
    """Raises on the first row where `wrong` is true."""
    row = pc.index(wrong, True).as_py()
    if row >= 0:
        value = "the time" if values is None else repr(values[row].as_py())
        raise DataError(f"{table.source}, {table.where(row)}: {value} in column {column!r} {what}; {remedy}")
