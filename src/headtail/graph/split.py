"""Splits: which links are held out for validation and test, and the negatives they are ranked against."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headtail.config import SplitConfig
from headtail.errors import DataError
from headtail.graph.csr import CSR
from headtail.graph.graph import Graph, HeldOut, first_of_each, link_keys
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.view import GraphView, ServingView, newer_than
from headtail.registry import Registry


@dataclass(frozen=True)
class Split:
    """Training links [2, E] with their times, held-out links, and how they were chosen."""

    train: Tensor
    train_times: Tensor | None
    valid: HeldOut
    test: HeldOut
    strategy: str

    def training_view(self, num_nodes: int, directed: bool) -> GraphView:
        """Returns the training links; dated ones with their times, unless older links were held out beside newer."""
        times = self.train_times if self.strategy in ("time", "given") else None
        return GraphView(num_nodes, directed, self.train, times)

    def serving_view(self, train_view: GraphView) -> ServingView:
        """Returns every link, each once: those of training, then the validation links, then the test links.

        Where training links are dated, so are the others: by their own times where these are known; else validation
        links are newer than all of training, and test links newer than those, as they are when the test sees
        validation links. Where held-out links are many, times of their own matter: by one date for all, none of them
        would be older than another, and every node that has one would look as new as can be.
        """
        links, times = train_view.links, train_view.times
        for part in (self.valid, self.test):
            links = torch.cat([links, part.positives], dim=1)
            if times is not None:
                own = newer_than(times, part.positives.shape[1]) if part.times is None else part.times
                times = torch.cat([times, own])
        first = first_of_each(link_keys(links, train_view.num_nodes, train_view.directed))
        times = None if times is None else times[first]
        return ServingView(train_view.num_nodes, train_view.directed, links[:, first], times)


# Returns two boolean masks over the links: validation and test.
Strategy = Callable[[Graph, SplitConfig, torch.Generator], tuple[Tensor, Tensor]]
SPLITS: Registry[Strategy] = Registry("split")


@SPLITS.register("random")
def random_split(graph: Graph, shares: SplitConfig, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Held-out links are drawn uniformly."""
    count = graph.links.shape[1]
    rank = torch.empty(count, dtype=torch.int64)
    rank[torch.randperm(count, generator=generator)] = torch.arange(count)
    test = max(1, round(count * shares.test_share))
    valid = max(1, round(count * shares.valid_share))
    return (rank >= test) & (rank < test + valid), rank < test


@SPLITS.register("time")
def time_split(graph: Graph, shares: SplitConfig, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The newest links are the test, the next newest the validation; no moment is cut in two."""
    if graph.times is None:
        raise DataError(f"{graph.source} has no times, so it cannot be split by time; name its time column.")
    moments, counts = torch.unique(graph.times, return_counts=True)
    last_train, last_valid = cut_in_time(moments, counts, shares, graph.source)
    test = graph.times > moments[last_valid]
    return (graph.times > moments[last_train]) & ~test, test


def cut_in_time(moments: Tensor, counts: Tensor, shares: SplitConfig, source: str) -> tuple[int, int]:
    """Returns the last moment of training and that of validation, as places in the sorted `moments`.

    Args:
        moments, counts: int64 [M], the distinct times of links, and how many links each has.
        shares: how many links come after them, about.
        source: names the data where it has too few moments.
    """
    if moments.numel() < 3:
        raise DataError(
            f"{source} has {moments.numel()} distinct times; a split by time needs three (train, valid, test)."
        )
    newer = counts.sum() - counts.cumsum(0)  # links strictly newer than each moment
    total = int(counts.sum())
    # The last training moment leaves about valid + test links after it, the last validation moment about test.
    last_valid = int((newer - shares.test_share * total).abs()[1:-1].argmin()) + 1
    held_out = (shares.test_share + shares.valid_share) * total
    return int((newer - held_out).abs()[:last_valid].argmin()), last_valid


@SPLITS.register("source")
def source_split(graph: Graph, shares: SplitConfig, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random heads with at least three links lose one to validation and one to test (as ogbl-citation2)."""
    count = graph.links.shape[1]
    shuffled = torch.randperm(count, generator=generator)
    order = shuffled[torch.argsort(graph.links[0][shuffled], stable=True)]
    head = graph.links[0][order]
    degree = torch.bincount(head, minlength=graph.num_nodes)
    start = degree.cumsum(0) - degree
    place = torch.arange(count) - start[head]
    rich = degree >= 3
    if not bool(rich.any()):
        raise DataError(
            f"{graph.source}: no head has three links, so a split per source leaves nothing to test; use split=random."
        )
    wanted = max(1, round(count * max(shares.test_share, shares.valid_share)))
    heads = rich.nonzero().squeeze(1)
    heads = heads[torch.randperm(heads.numel(), generator=generator)[:wanted]]
    chosen = torch.zeros(graph.num_nodes, dtype=torch.bool)
    chosen[heads] = True
    valid, test = torch.zeros(count, dtype=torch.bool), torch.zeros(count, dtype=torch.bool)
    valid[order[chosen[head] & (place == 0)]] = True
    test[order[chosen[head] & (place == 1)]] = True
    return valid, test


def make_split(graph: Graph, config: SplitConfig, seed: int) -> Split:
    """Returns the split that came with the graph, or makes one.

    Raises:
        DataError: the graph is too small or lacks what the strategy needs.
    """
    strategy = config.split
    if strategy == "auto":
        strategy = "given" if graph.has_split else "random" if graph.times is None else "time"
    if strategy == "given":
        if graph.valid is None or graph.test is None:
            raise DataError(f"{graph.source} brings no split; give validation and test links, or use split=random.")
        strategy = graph.strategy if isinstance(graph, PackedGraph) else strategy
        return Split(graph.links, graph.times, graph.valid, graph.test, strategy)
    if graph.has_split:
        raise DataError(f"{graph.source} brings its own split; use split=given (or auto), not {strategy!r}.")
    if graph.links.shape[1] < 3:
        raise DataError(
            f"{graph.source} has {graph.links.shape[1]} links; train, validation and test need one each at least."
        )
    valid, test = SPLITS[strategy](graph, config, torch.Generator().manual_seed(seed))
    train = ~(valid | test)
    if not bool(train.any()):
        raise DataError(f"{graph.source}: no link is left to train on; lower valid_share and test_share.")

    def times(which: Tensor) -> Tensor | None:
        return None if graph.times is None else graph.times[which]

    held_out = [HeldOut(graph.links[:, which], times=times(which)) for which in (valid, test)]
    return Split(graph.links[:, train], times(train), held_out[0], held_out[1], strategy)


def train_on_validation(split: Split, num_nodes: int, directed: bool) -> Split:
    """Returns the split with its validation links among the training links, each link once.

    They stay validation links too. Their times are not known, so there are none of training links any more.
    """
    links = torch.cat([split.train, split.valid.positives], dim=1)
    first = first_of_each(link_keys(links, num_nodes, directed))
    return replace(split, train=links[:, first], train_times=None)


def with_negatives(split: Split, graph: Graph, metric: str, count: int, seed: int) -> Split:
    """Draws the negatives that a split lacks; none is a link, held out or not.

    Raises:
        DataError: the negatives that it brings are not what the metric ranks against, or there are none to draw.
    """
    known = _known_links(graph, split)
    held_out = []
    for offset, part in enumerate((split.valid, split.test)):
        if part.negatives is None:
            generator = torch.Generator().manual_seed((2 * seed + offset + 1) % 2**63)
            if metric == "mrr":
                negatives = _random_tails(part.positives[0], known, count, generator)
            else:
                negatives = _random_pairs(known, count * 1000, generator)
            part = replace(part, negatives=negatives)
        elif part.negatives.shape[0] != (part.positives.shape[1] if metric == "mrr" else 2):
            wanted = "tails of each link" if metric == "mrr" else "pairs [2, M]"
            raise DataError(
                f"{graph.source} brings negatives {list(part.negatives.shape)}, but {metric} ranks against {wanted}; "
                f"choose {'hits@K' if metric == 'mrr' else 'mrr'} as metric (--metric)."
            )
        held_out.append(part)
    return Split(split.train, split.train_times, held_out[0], held_out[1], split.strategy)


def _known_links(graph: Graph, split: Split) -> CSR:
    if isinstance(graph, PackedGraph):
        return graph.known
    # graph.links also holds training links that were dropped from the split: they are no negatives either.
    every = torch.cat([graph.links, split.valid.positives, split.test.positives], dim=1)
    return GraphView(graph.num_nodes, graph.directed, every).out_rows


def _random_tails(heads: Tensor, known: CSR, count: int, generator: torch.Generator) -> Tensor:
    """Returns tails [P, count] with which no head is linked."""
    n = known.num_rows
    busiest = int(known.degrees[heads].max())
    if busiest >= n - 1:
        raise DataError(
            "a held-out link's head is linked to every other node, so it has no negatives to be ranked against."
        )
    repeated = heads.repeat_interleave(count)
    tails = torch.empty_like(repeated)
    wrong = torch.arange(repeated.numel())
    while wrong.numel():
        tails[wrong] = torch.randint(n, (wrong.numel(),), generator=generator)
        wrong = wrong[_no_negatives(known, repeated[wrong], tails[wrong])]
    return tails.view(-1, count)


def _random_pairs(known: CSR, count: int, generator: torch.Generator) -> Tensor:
    """Returns unlinked pairs [2, count]."""
    n = known.num_rows
    if known.col.numel() >= n * (n - 1):
        raise DataError("every pair of nodes is linked, so there are no negatives to rank against.")
    pairs = torch.empty(2, count, dtype=torch.int64)
    wrong = torch.arange(count)
    while wrong.numel():
        pairs[:, wrong] = torch.randint(n, (2, wrong.numel()), generator=generator)
        wrong = wrong[_no_negatives(known, *pairs[:, wrong])]
    return pairs


def _no_negatives(known: CSR, heads: Tensor, tails: Tensor) -> Tensor:
    return known.contains(heads, tails) | (heads == tails)
