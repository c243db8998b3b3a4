"""A graph as the user gave it, cleaned: links once, no self-loops, nodes with names."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headtail.datasets.raw import RawGraph
from headtail.errors import DataError
from headtail.graph.names import NodeNames
from headtail.limits import refuse_beyond_memory

# Links are compared by head · nodes + tail, which must stay below 2**63.
MOST_NODES = 3_037_000_499
# Row pointers of links, their reverse and both.
BYTES_PER_NODE = 24


@dataclass(frozen=True)
class Cleaning:
    """What was done to the data while building a graph: links dropped, columns of a node table made into features."""

    self_loops: int
    duplicates: int
    columns: str = ""

    def __str__(self) -> str:
        dropped = f"dropped {self.self_loops:,} self-loops and {self.duplicates:,} duplicate links"
        return f"{dropped}; {self.columns}" if self.columns else dropped


@dataclass(frozen=True)
class HeldOut:
    """Links kept from training: positives [2, P] and negatives.

    `negatives` are tails [P, K] per positive (mrr) or pairs [2, M] (hits@K); None where they are still to
    be drawn. `times` int64 [P] dates the positives where that is known.
    """

    positives: Tensor
    negatives: Tensor | None = None
    times: Tensor | None = None


@dataclass(frozen=True)
class Graph:
    """Links between named nodes.

    Attributes:
        links: int64 [2, E]; the training links where the data brought its own split, all links otherwise.
        times: int64 [E] or None.
        features: float32 [num_nodes, d] or None.
        valid, test: the split that came with the data, None otherwise.
        metric: the metric that came with the data, None otherwise.
    """

    source: str
    num_nodes: int
    directed: bool
    links: Tensor
    names: NodeNames
    cleaning: Cleaning
    times: Tensor | None = None
    features: Tensor | None = None
    valid: HeldOut | None = None
    test: HeldOut | None = None
    metric: str | None = None

    @property
    def has_split(self) -> bool:
        return self.valid is not None


def build_graph(raw: RawGraph) -> Graph:
    """Cleans what a reader returned.

    Raises:
        DataError: fewer than two nodes, no links left, or a split that names nodes the graph lacks.
    """
    if raw.num_nodes < 2:
        raise DataError(f"{raw.source} has {raw.num_nodes} node; a link needs two, so there is nothing to predict.")
    refuse_too_many_nodes(raw.source, raw.num_nodes)
    links = _tensor(raw.links)
    times = None if raw.times is None else _tensor(raw.times)
    _check_range(links, raw.num_nodes, f"{raw.source}, links")
    links, times, cleaning = _clean(links, times, raw.num_nodes, raw.directed)
    if links.shape[1] == 0:
        raise DataError(
            f"{raw.source} has no links ({cleaning}); give an edge list with at least one link between two nodes."
        )
    valid = test = None
    if raw.split is not None:
        valid = _held_out(raw, "validation links", raw.split.valid, raw.split.valid_negatives)
        test = _held_out(raw, "test links", raw.split.test, raw.split.test_negatives)
    features = None if raw.features is None else torch.from_numpy(raw.features)
    names = NodeNames(raw.num_nodes, _signed(raw.names))
    return Graph(
        raw.source,
        raw.num_nodes,
        raw.directed,
        links,
        names,
        replace(cleaning, columns=raw.features_note),
        times,
        features,
        valid,
        test,
        raw.metric,
    )


def refuse_too_many_nodes(source: str, num_nodes: int) -> None:
    """Refuses a number of nodes that a file merely claims: a pair's number must fit 64 bits, a pointer per row memory.

    Raises:
        DataError: it is too large.
    """
    if num_nodes > MOST_NODES:
        raise DataError(f"{source} has {num_nodes:,} nodes; headtail numbers {MOST_NODES:,} at most.")
    refuse_beyond_memory(f"{source} has {num_nodes:,} nodes, which", BYTES_PER_NODE * num_nodes)


def _tensor(array: "np.ndarray") -> Tensor:
    """Returns int64 numbers as a tensor of its own, also where the array is read-only."""
    return torch.from_numpy(np.array(array, dtype=np.int64))


def _signed(names: pd.Index | None) -> pd.Index | None:
    """Returns unsigned ids as signed ones where they fit, else as text: everything else knows these two kinds."""
    if names is None or not pd.api.types.is_unsigned_integer_dtype(names.dtype):
        return names
    fits = len(names) == 0 or int(names.max()) < 2**63
    return names.astype(np.int64) if fits else names.astype(str)


def link_keys(links: Tensor, num_nodes: int, directed: bool) -> Tensor:
    """Returns int64 [E], equal for equal links; an undirected link has one key in both orientations."""
    if directed:
        return links[0] * num_nodes + links[1]
    return torch.minimum(links[0], links[1]) * num_nodes + torch.maximum(links[0], links[1])


def first_of_each(keys: Tensor) -> Tensor:
    """Returns the places, ascending, where a key [E] occurs for the first time."""
    distinct, place = torch.unique(keys, return_inverse=True)
    first = torch.full((distinct.numel(),), keys.numel(), dtype=torch.int64)
    return first.scatter_reduce(0, place, torch.arange(keys.numel()), reduce="amin").sort().values


def _clean(
    links: Tensor, times: Tensor | None, num_nodes: int, directed: bool
) -> tuple[Tensor, Tensor | None, Cleaning]:
    proper = links[0] != links[1]
    keys = link_keys(links[:, proper], num_nodes, directed)
    if times is None:
        distinct = torch.unique(keys)
    else:  # a repeated link is dated by its first occurrence
        distinct, place = torch.unique(keys, return_inverse=True)
        latest = torch.iinfo(torch.int64).max
        first = torch.full((distinct.numel(),), latest, dtype=torch.int64)
        times = first.scatter_reduce(0, place, times[proper], reduce="amin")
    head = torch.div(distinct, num_nodes, rounding_mode="floor")
    cleaning = Cleaning(int((~proper).sum()), keys.numel() - distinct.numel())
    return torch.stack([head, distinct - head * num_nodes]), times, cleaning


def _held_out(raw: RawGraph, what: str, positives: "np.ndarray", negatives: "np.ndarray | None") -> HeldOut:
    links = _tensor(positives)
    if links.shape[1] == 0:
        raise DataError(f"{raw.source} has no {what}; a given split needs at least one.")
    _check_range(links, raw.num_nodes, f"{raw.source}, {what}")
    loops = int((links[0] == links[1]).sum())
    if loops:
        raise DataError(f"{raw.source}: {loops:,} of its {what} are self-loops, which are no links; remove them.")
    if negatives is None:
        return HeldOut(links)
    drawn = _tensor(negatives)
    _check_range(drawn, raw.num_nodes, f"{raw.source}, negatives of the {what}")
    return HeldOut(links, drawn)


def _check_range(nodes: Tensor, num_nodes: int, where: str) -> None:
    wrong = nodes[(nodes < 0) | (nodes >= num_nodes)]
    if wrong.numel():
        raise DataError(
            f"{where}: node {int(wrong[0])} is outside 0 … {num_nodes - 1} ({wrong.numel()} such entries); "
            "the graph lacks it: add it to the graph or remove it there."
        )
