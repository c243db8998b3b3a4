"""Reads and writes a graph with a fixed split as one npz of plain arrays.

Arrays: `num_nodes`, `directed`, `train` [2, E]; optional `metric` ("mrr" or "hits@K"), `x` [N, d],
`train_time` [E], `valid` and `test` [2, P], `valid_neg` and `test_neg` ([2, M] pairs for hits@K, [P, K] tails
per positive for mrr), `names` [N] (texts or integers, the ids the user knows). Undirected pairs are stored once.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from headtail.datasets.arrays import Array, npz_headers, read_npz_arrays
from headtail.datasets.features import matrix_features
from headtail.datasets.raw import Floats, Ints, RawGraph, RawSplit
from headtail.errors import DataError, did_you_mean
from headtail.limits import refuse_beyond_memory

REQUIRED = ("num_nodes", "directed", "train")
OPTIONAL = ("metric", "x", "names", "train_time", "valid", "test", "valid_neg", "test_neg")


def is_split_file(path: Path) -> bool:
    """Whether the npz at `path` holds a graph rather than, say, a feature matrix."""
    return {"num_nodes", "train"} <= set(npz_headers(path))


def read_npz(path: str | Path) -> RawGraph:
    """Returns the graph of an npz split file.

    Raises:
        DataError: If an array is missing, misspelt, of the wrong shape, or names a node that does not exist.
    """
    return _SplitFile(Path(path)).graph()


def write_npz(graph: RawGraph, path: Path) -> None:
    """Writes a graph as `read_npz` reads it; the file appears only when it is complete."""
    # Imported here: it brings torch, which reading does without.
    from headtail.files import replacing

    arrays: dict[str, Array | None] = {
        "num_nodes": np.array(graph.num_nodes),
        "directed": np.array(graph.directed),
        "train": _small(graph.links),
        "train_time": graph.times,
        "x": graph.features,
        "metric": None if graph.metric is None else np.array(graph.metric),
        "names": None if graph.names is None else _names_array(graph.names),
    }
    if graph.split is not None:
        split = graph.split
        arrays |= {"valid": _small(split.valid), "test": _small(split.test)}
        arrays |= {"valid_neg": _small(split.valid_negatives), "test_neg": _small(split.test_negatives)}
    present = {name: array for name, array in arrays.items() if array is not None}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **present)


def _small(nodes: Ints | None) -> Array | None:
    """Returns node numbers as int32 where that holds them."""
    if nodes is None or (nodes.size and nodes.max() > np.iinfo(np.int32).max):
        return nodes
    return nodes.astype(np.int32)


def _names_array(names: pd.Index) -> Array:
    """Returns int64 or unicode [N]; pandas' own text arrays would need pickle."""
    if pd.api.types.is_integer_dtype(names.dtype):
        return names.to_numpy(dtype=np.int64)
    # Every text takes the room of the longest.
    refuse_beyond_memory("writing the node names", 4 * len(names) * int(names.str.len().max()))
    return names.to_numpy(dtype=np.str_)


class _SplitFile:
    """The arrays of one file, each checked as it is taken out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        names = npz_headers(path)
        for name in REQUIRED:
            if name not in names:
                raise DataError(f"{path} has no array {name!r}; it holds: {', '.join(sorted(names))}")
        for name in names:
            # A misspelt "test_neg" would otherwise silently change how the model is judged.
            if name not in REQUIRED + OPTIONAL:
                raise DataError(f"{path} holds an unknown array {name!r}; {did_you_mean(name, REQUIRED + OPTIONAL)}")
        self.arrays = read_npz_arrays(path)
        self.num_nodes = int(self._scalar("num_nodes", "iu"))
        if self.num_nodes < 1:
            raise DataError(f"{path}: num_nodes is {self.num_nodes}, a graph needs at least one node")

    def graph(self) -> RawGraph:
        train = self._links("train")
        metric = self._metric()
        return RawGraph(
            source=str(self.path),
            num_nodes=self.num_nodes,
            links=train,
            directed=bool(self._scalar("directed", "biu")),
            names=self._names(),
            times=self._times(train.shape[1]),
            features=self._features(),
            split=self._split(metric),
            metric=metric,
        )

    def _split(self, metric: str | None) -> RawSplit | None:
        for first, second in (("valid", "test"), ("valid_neg", "test_neg")):
            if (first in self.arrays) != (second in self.arrays):
                raise DataError(f"{self.path} holds only one of {first!r} and {second!r}; give both or neither")
        if "valid" not in self.arrays:
            if "valid_neg" in self.arrays:
                raise DataError(f"{self.path} holds negatives without positives; add 'valid' and 'test'")
            return None
        valid, test = self._links("valid"), self._links("test")
        if "valid_neg" not in self.arrays:
            return RawSplit(valid, test)
        if metric is None:
            raise DataError(f"{self.path} holds negatives but no 'metric'; add metric='mrr' or 'hits@K'")
        return RawSplit(
            valid,
            test,
            self._negatives("valid_neg", valid.shape[1], metric),
            self._negatives("test_neg", test.shape[1], metric),
        )

    def _scalar(self, name: str, kinds: str) -> str | int:
        array = self.arrays[name]
        if array.size != 1 or array.dtype.kind not in kinds:
            raise DataError(f"{self.path}: {name!r} must be a single value, not {array.dtype} of shape {array.shape}")
        value: str | int = array.item()
        return value

    def _metric(self) -> str | None:
        if "metric" not in self.arrays:
            return None
        metric = str(self._scalar("metric", "U"))
        if not re.fullmatch(r"mrr|hits@[1-9]\d*", metric):
            raise DataError(f"{self.path}: unknown metric {metric!r}; use 'mrr' or 'hits@K', for example 'hits@50'")
        return metric

    def _links(self, name: str) -> Ints:
        links = self._integers(name)
        if links.ndim != 2 or links.shape[0] != 2:
            raise DataError(f"{self.path}: {name!r} has shape {links.shape}, expected [2, E] (heads, tails)")
        return self._known(name, links)

    def _negatives(self, name: str, positives: int, metric: str) -> Ints:
        negatives = self._integers(name)
        if metric == "mrr" and (negatives.ndim != 2 or negatives.shape[0] != positives):
            raise DataError(
                f"{self.path}: {name!r} has shape {negatives.shape}, expected [{positives}, K] for mrr: "
                "K tails for each positive link"
            )
        if metric != "mrr" and (negatives.ndim != 2 or negatives.shape[0] != 2):
            raise DataError(f"{self.path}: {name!r} has shape {negatives.shape}, expected [2, M] pairs for {metric}")
        if negatives.shape[1] == 0:
            raise DataError(f"{self.path}: {name!r} is empty; leave it out or give negatives")
        return self._known(name, negatives)

    def _integers(self, name: str) -> Ints:
        array = self.arrays[name]
        if array.dtype.kind not in "iu":
            raise DataError(f"{self.path}: {name!r} holds {array.dtype}, expected integers")
        return array.astype(np.int64)

    def _known(self, name: str, nodes: Ints) -> Ints:
        wrong = (nodes < 0) | (nodes >= self.num_nodes)
        if wrong.any():
            place = tuple(int(index) for index in np.argwhere(wrong)[0])
            raise DataError(
                f"{self.path}: {name!r} names node {nodes[place]} at index {place}, but nodes are "
                f"0 … {self.num_nodes - 1}; renumber the nodes or raise num_nodes"
            )
        return nodes

    def _times(self, num_links: int) -> Ints | None:
        if "train_time" not in self.arrays:
            return None
        times = self._integers("train_time")
        if times.shape != (num_links,):
            raise DataError(f"{self.path}: 'train_time' has shape {times.shape}, expected [{num_links}], one per link")
        return times

    def _names(self) -> pd.Index | None:
        if "names" not in self.arrays:
            return None
        array = self.arrays["names"]
        if array.dtype.kind not in "Uiu" or array.shape != (self.num_nodes,):
            raise DataError(
                f"{self.path}: 'names' is {array.dtype} of shape {array.shape}, expected texts or integers "
                f"[{self.num_nodes}], one per node"
            )
        names: pd.Index = pd.Index(array.astype(object) if array.dtype.kind == "U" else array.astype(np.int64))
        again = names.duplicated()
        if again.any():
            raise DataError(
                f"{self.path}: 'names' holds {names[again][0]!r} twice, the second time for node "
                f"{int(np.argmax(again))}; a name stands for one node"
            )
        return names

    def _features(self) -> Floats | None:
        if "x" not in self.arrays:
            return None
        return matrix_features(self.arrays["x"], f"{self.path}, array 'x'", self.num_nodes)
