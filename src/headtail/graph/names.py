"""Node names: the ids the user knows, and the node numbers everything else works with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headtail.errors import DataError, did_you_mean

Name = str | int


@dataclass(frozen=True)
class NodeNames:
    """The names of nodes 0 … num_nodes − 1; `index` is None where the names are the numbers themselves."""

    num_nodes: int
    index: pd.Index | None = None

    def of(self, nodes: Tensor) -> list[Name]:
        """Returns the names of the given node numbers."""
        numbers = nodes.cpu().numpy()
        chosen = numbers if self.index is None else self.index.to_numpy()[numbers]
        return [int(name) if isinstance(name, np.integer) else name for name in chosen.tolist()]

    def array(self) -> np.ndarray:
        """Returns the names of all nodes in node order."""
        return np.arange(self.num_nodes) if self.index is None else self.index.to_numpy()

    def find(self, names: Sequence[Name], where: str = "the request") -> Tensor:
        """Returns int64 [len(names)], the node number of every name.

        Names may be given as text also where the graph's ids are integers (as a command line does).

        Raises:
            DataError: some names are not nodes of this graph.
        """
        asked = pd.Series(list(names), dtype=object)
        if self._integer_names:
            numbers = pd.to_numeric(asked, errors="coerce")
            whole = numbers.notna() & (numbers % 1 == 0)
            asked = asked.where(~whole, numbers.where(whole, 0).astype(np.int64))
            places = self._places_of_integers(asked, whole)
        else:
            assert self.index is not None
            places = self.index.get_indexer(pd.Index(asked.astype(str)))
        missing = np.flatnonzero(places < 0)
        if len(missing):
            first = str(names[int(missing[0])])
            raise DataError(
                f"{len(missing)} of {len(asked)} node names in {where} are not in the graph, the first is "
                f"{first!r}; {self._hint(first)}"
            )
        return torch.from_numpy(np.asarray(places, dtype=np.int64))

    @property
    def _integer_names(self) -> bool:
        return self.index is None or pd.api.types.is_integer_dtype(self.index.dtype)

    def _places_of_integers(self, asked: pd.Series, whole: pd.Series) -> np.ndarray:
        numbers = asked.where(whole, -1).astype(np.int64).to_numpy()
        if self.index is None:
            places = np.where((numbers >= 0) & (numbers < self.num_nodes), numbers, -1)
        else:
            places = self.index.get_indexer(pd.Index(numbers))
        return np.where(whole.to_numpy(), places, -1)

    def _hint(self, name: str) -> str:
        if self.index is None:
            return f"its nodes are the numbers 0 to {self.num_nodes - 1}."
        # Near names are searched among those that share a beginning, so that a million names stay fast.
        names = self.index.astype(str)
        alike = names[names.str.startswith(name[:3])] if name else names[:0]
        pool = list(alike[:2000])
        if not pool:
            return f"names look like {', '.join(map(repr, list(names[:3])))}."
        return did_you_mean(name, pool).split(" Valid:")[0]
