"""Pairs of names as people give them: tuples, tables, arrays; what could be read in two ways is refused."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from torch import Tensor

from headtail.datasets.arrays import to_numpy
from headtail.errors import DataError
from headtail.graph.names import Name, Names

GivenPairs: TypeAlias = Iterable[Sequence[Name]] | pd.DataFrame | np.ndarray | Tensor
_FORMS = "give tuples (head, tail), a table of two columns, or an array [2, P] of heads above tails or [P, 2] of pairs"


def heads_and_tails(pairs: GivenPairs) -> tuple[Names, Names]:
    """Returns the names of heads [P] and of tails [P].

    Raises:
        DataError: these are no pairs, or it cannot be known which are the heads.
    """
    if isinstance(pairs, pd.DataFrame):
        if pairs.shape[1] < 2:
            raise DataError("pairs need two columns, heads and tails.")
        return pairs.iloc[:, 0], pairs.iloc[:, 1]
    if isinstance(pairs, np.ndarray | Tensor):
        return _of_array(to_numpy(pairs))
    if isinstance(pairs, str | Mapping | pd.Series | pd.Index) or not isinstance(pairs, Iterable):
        raise DataError(f"pairs cannot be read from {type(pairs).__name__}; {_FORMS}.")
    listed = list(pairs)
    for place, pair in enumerate(listed):
        # A row of an array might as well be all heads: the array itself says which it is.
        if not isinstance(pair, tuple | list):
            raise DataError(f"pair {place} (counted from 0) is of type {type(pair).__name__}; {_FORMS}.")
        if len(pair) != 2:
            raise DataError(f"pair {place} (counted from 0) has {len(pair)} names; {_FORMS}.")
    return [head for head, _ in listed], [tail for _, tail in listed]


def _of_array(array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Reads [2, P] as heads above tails, [P, 2] as a pair in each row."""
    if not array.size and array.shape in ((0,), (2, 0), (0, 2)):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if array.dtype.kind not in "iuUTO":
        raise DataError(f"the pairs are {array.dtype}, which no node is called; give integers or texts.")
    if array.shape == (2, 2):
        raise DataError(
            "pairs [2, 2] may be heads above tails, or a pair in each row; give the rows as tuples: "
            "list(zip(heads, tails)), or [tuple(pair) for pair in pairs]."
        )
    if array.ndim != 2 or 2 not in array.shape:
        raise DataError(f"the pairs have the shape {list(array.shape)}; {_FORMS}.")
    heads, tails = array if len(array) == 2 else array.T
    return heads, tails
