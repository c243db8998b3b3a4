"""Reads numbers, truth values and dates from how they are written, if every string of a column is one."""

from typing import TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Doubles: TypeAlias = NDArray[np.float64]

# How a missing one is written. Among labels these are values like others: a package may well be called "null".
_MISSING = pa.array(["na", "n/a", "nan", "null", "none", "-", "?"], pa.large_string())
_TRUTH = pa.array(["true", "false"], pa.large_string())
_DATE = r"^\d{4}-\d{2}(-\d{2}([T ][0-9:.,]+([zZ]|[+-][0-9:]+)?)?)?$"
_PADDED = r"^[+-]?0\d"


def written_numbers(strings: pa.Array) -> Doubles | None:
    """Returns numbers, NaN for missing ones, or None if a string is none; "007" is a code and no number."""
    if pc.any(pc.match_substring_regex(strings, _PADDED)).as_py():
        return None
    try:
        return with_nan(_without_missing(strings).cast(pa.float64()))
    except pa.ArrowInvalid:
        return None


def written_truth(strings: pa.Array) -> Doubles | None:
    """Returns 1 for true, 0 for false and NaN for a missing one, or None if a string is none of them."""
    words = pc.utf8_lower(_without_missing(strings))
    if not pc.all(pc.is_in(words.drop_null(), value_set=_TRUTH)).as_py():
        return None
    return with_nan(pc.equal(words, "true").cast(pa.float64()))


def written_dates(strings: pa.Array) -> Doubles | None:
    """Returns seconds since 1970 (UTC) of ISO 8601 dates, NaN for missing ones, or None if a string is no date."""
    texts = _without_missing(strings)
    if not pc.all(pc.match_substring_regex(texts.drop_null(), _DATE)).as_py():
        return None
    dates = pd.Series(pd.to_datetime(texts.to_pandas(), format="ISO8601", utc=True, errors="coerce"))
    if int(dates.isna().sum()) > texts.null_count:
        return None
    seconds = dates.dt.tz_localize(None).to_numpy().astype("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64).astype(np.float64))


def with_nan(numbers: pa.Array | pa.ChunkedArray) -> Doubles:
    """Returns float64 numbers, NaN for missing ones."""
    return np.asarray(numbers.to_pandas(), dtype=np.float64)


def _without_missing(strings: pa.Array) -> pa.Array:
    missing = pc.is_in(pc.utf8_lower(strings), value_set=_MISSING)
    return pc.if_else(missing, pa.scalar(None, pa.large_string()), strings)
