"""Node names: the ids the user knows, and the node numbers everything else works with."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headtail.datasets.arrays import Array, to_numpy
from headtail.errors import DataError

Name = str | int
# One name, or several in whatever holds them.
Names: TypeAlias = Name | Iterable[Name] | Tensor | np.ndarray | pd.Series | pd.Index


@dataclass(frozen=True)
class NodeNames:
    """The names of nodes 0 … num_nodes − 1; `index` is None where the names are the numbers themselves.

    Names may be `given` as a function that reads them, which is called when the first one is asked for.
    """

    num_nodes: int
    given: pd.Index | Callable[[], pd.Index] | None = None

    @cached_property
    def index(self) -> pd.Index | None:
        """The names in node order."""
        return self.given() if callable(self.given) else self.given

    def of(self, nodes: Tensor) -> list[Name]:
        """Returns the names of the given node numbers."""
        numbers = nodes.cpu().numpy()
        chosen = numbers if self.index is None else self.index.to_numpy()[numbers]
        return [int(name) if isinstance(name, np.integer) else name for name in chosen.tolist()]

    def array(self) -> np.ndarray:
        """Returns the names of all nodes in node order."""
        return np.arange(self.num_nodes) if self.index is None else self.index.to_numpy()

    def find(self, names: Names, where: str = "the request") -> Tensor:
        """Returns int64 [n], the node number of one name, or of each of several.

        Names may be given as text also where the graph's ids are integers (as a command line does). Arrays, tensors
        and columns of integers are read without a look at each.

        Raises:
            DataError: some names are not nodes of this graph, or an array holds no names.
        """
        asked = _listed(names, where)
        places = self._places(asked)
        missing = np.flatnonzero(places < 0)
        if len(missing):
            first = str(asked[int(missing[0])])
            raise DataError(
                f"{len(missing)} of {len(asked)} node names in {where} are not in the graph, the first is "
                f"{first!r}; {self._hint(first)}"
            )
        return torch.from_numpy(np.asarray(places, dtype=np.int64))

    def __contains__(self, name: object) -> bool:
        """Whether a name is that of a node."""
        return isinstance(name, str | int) and bool(self._places([name])[0] >= 0)

    def _places(self, names: Sequence[Name] | Array) -> np.ndarray:
        """Returns int64 [n], the node number of every name, −1 where it is no node."""
        if self.index is None or pd.api.types.is_integer_dtype(self.index.dtype):
            return self._places_of_integers(names)
        texts = names.astype(str) if isinstance(names, np.ndarray) else [str(name) for name in names]
        return self.index.get_indexer(pd.Index(texts, dtype=self.index.dtype))

    def _places_of_integers(self, names: Sequence[Name] | Array) -> np.ndarray:
        if isinstance(names, np.ndarray):
            numbers = names.astype(np.int64)
            if names.dtype == np.uint64:  # those that int64 has not have become negative
                numbers[numbers < 0] = _NO_INTEGER
        else:
            numbers = np.array([_as_integer(name) for name in names], dtype=np.int64)
        found = numbers != _NO_INTEGER
        if self.index is None:
            places = np.where((numbers >= 0) & (numbers < self.num_nodes), numbers, -1)
        else:
            places = self.index.get_indexer(pd.Index(numbers))
        return np.where(found, places, -1)

    def _hint(self, name: str) -> str:
        if self.index is None:
            return f"its nodes are the numbers 0 to {self.num_nodes - 1}."
        # Near names are searched among those that share a beginning, so that a million names stay fast; and among short
        # ones, for comparing two texts takes the product of their lengths.
        names = self.index.astype(str)
        alike = names[names.str.startswith(name[:2])] if 0 < len(name) <= _LONGEST_COMPARED else names[:0]
        pool = [other for other in alike[:2000] if len(other) <= _LONGEST_COMPARED]
        if not pool:
            return f"names look like {', '.join(map(repr, list(names[:3])))}."
        near = difflib.get_close_matches(name, pool, n=1, cutoff=0.5)
        return f"did you mean {near[0]!r}?" if near else f"names look like {', '.join(map(repr, pool[:3]))}."


_LONGEST_COMPARED = 200
_NO_INTEGER = np.iinfo(np.int64).min


def _listed(names: Names, where: str) -> Sequence[Name] | Array:
    """Returns an array of integers [n] where an array or a column holds them; else a list of names."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        return [names]
    if not isinstance(names, pd.Series | pd.Index | np.ndarray | Tensor):
        return list(names)
    if isinstance(names, pd.Series | pd.Index):
        # A column with gaps may hold floats, of which whole ones are ids; whether they are is told one by one.
        if pd.api.types.is_float_dtype(names.dtype) or names.hasnans:
            return names.tolist()
        array = names.to_numpy()
    else:
        array = to_numpy(names)
    if array.ndim > 1:
        raise DataError(f"{where} have the shape {list(array.shape)}; give one name, or one row of them.")
    array = array.reshape(-1)
    if array.dtype.kind in "iu" or not array.size:
        return array.astype(np.int64) if not array.size else array
    if array.dtype.kind not in "UTO":
        raise DataError(f"{where} are {array.dtype}, which no node is called; give integers or texts.")
    return array.tolist()


def _as_integer(name: Name) -> int:
    """Returns an id given as a number or as text, or a value that no id has."""
    if isinstance(name, bool | np.bool_):
        return _NO_INTEGER
    try:
        number = int(name)
    except (ValueError, TypeError, OverflowError):
        return _NO_INTEGER
    same = isinstance(name, str) or name == number  # 1.5, say from a table of floats, is no id
    return number if same and abs(number) < 2**63 else _NO_INTEGER
