"""The second stage: boosted trees that rank a head's candidates, learned from training links that were hidden.

What is hidden are the newest links where links are dated, given the older ones, as the future will ask; a tenth of
the links where they are not. Everything the trees read is read off the links that remain.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.supervision import Supervision, supervise
from headtail.graph.view import GraphView, both_ways
from headtail.serving.candidates import SOURCES, Candidates, Lists
from headtail.serving.cells import heads_at_once
from headtail.serving.columns import feature_columns, first_of, link_columns, narrowed
from headtail.serving.sight import Sight

# Of undated links, so many are hidden to learn from.
HIDDEN_SHARE = 0.1
# Heads that are learned from, and how many of each one's wrong candidates: the best by their places, and any.
MOST_HEADS, HARD, ANY = 4000, 60, 100
# Trees, and how they grow.
ROUNDS = 200
GROWTH = {
    "objective": "rank_xendcg",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 50,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "feature_fraction": 0.7,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def hide(view: GraphView, seed: int) -> Supervision:
    """Returns links of a view to learn from, between nodes that have others, and the view without them."""
    found = supervise(view, "newest")
    if found.view is not view:
        return found
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(view.links.shape[1], generator=generator) < HIDDEN_SHARE
    rest = GraphView(view.num_nodes, view.directed, view.links[:, ~hidden])
    known = rest.neighbours.degrees > 0
    links = view.links[:, hidden]
    return Supervision(links[:, known[links].all(dim=0)], rest)


@dataclass(frozen=True, eq=False)
class LearningLists:
    """Candidates of heads that lost links, as the trees read them.

    Attributes:
        columns: float32 [C, columns].
        names: of the columns.
        right: bool [C], whether a candidate is a hidden link.
        sizes: int64 [H], the candidates of each head.
    """

    columns: np.ndarray[tuple[int, int], np.dtype[np.float32]]
    names: tuple[str, ...]
    right: np.ndarray[tuple[int], np.dtype[np.bool_]]
    sizes: np.ndarray[tuple[int], np.dtype[np.int64]]


def learning_lists(candidates: Candidates, hidden: Tensor, seed: int) -> LearningLists | None:
    """Draws heads that lost links [2, E] and lists their candidates; None where no candidate is a hidden link.

    All right candidates are kept, and of the wrong ones those that rank high and a sample of the others.
    """
    sight = candidates.sight
    links = hidden if sight.directed else both_ways(hidden)
    lost = CSR.from_links(links, sight.num_nodes)
    heads = (lost.degrees > 0).nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(seed)
    heads = heads[torch.randperm(heads.numel(), generator=generator)[:MOST_HEADS]].sort().values
    parts, right, sizes = [], [], []
    names: tuple[str, ...] = ()
    for block in torch.split(heads, heads_at_once(sight.num_nodes)):
        lists = candidates.lists(block, sight.view.out_rows)
        columns = link_columns(lists, sight)
        there = lists.tails >= 0
        by_place = torch.stack([1 / (columns[f"place: {source.name}"] + 2) for source in candidates.sources]).sum(dim=0)
        drawn = torch.rand(there.shape, generator=generator)
        kept = _wanted(lists, lost) | first_of(by_place, there, HARD) | first_of(drawn, there, ANY)
        few, columns, _ = narrowed(lists, columns, kept)
        columns |= feature_columns(few.heads, few.tails, sight)
        names, wanted = tuple(columns), _wanted(few, lost)
        learned = (few.tails >= 0) & wanted.any(dim=1, keepdim=True)
        parts.append(torch.stack([columns[name][learned] for name in names], dim=1))
        right.append(wanted[learned])
        sizes.append(learned.sum(dim=1)[wanted.any(dim=1)])
    if not right or not bool(torch.cat(right).any()):
        return None
    return LearningLists(torch.cat(parts).numpy(), names, torch.cat(right).numpy(), torch.cat(sizes).numpy())


def _wanted(lists: Lists, lost: CSR) -> Tensor:
    """Returns bool [B, T]: which candidates are links that the head lost."""
    heads = lists.heads[:, None].expand_as(lists.tails)
    found = lost.contains(heads.reshape(-1), lists.tails.clamp(min=0).reshape(-1)).view_as(lists.tails)
    return found & (lists.tails >= 0)


def learn_trees(lists: LearningLists, names: Sequence[str], seed: int) -> str:
    """Returns trees over the named columns, as LightGBM's own text."""
    import lightgbm

    chosen = [lists.names.index(name) for name in names]
    data = lightgbm.Dataset(
        lists.columns[:, chosen], lists.right.astype(np.float32), group=lists.sizes, params={"verbosity": -1}
    )
    settings = GROWTH | {"seed": seed % 2**31, "num_threads": torch.get_num_threads()}
    text: str = lightgbm.train(settings, data, ROUNDS).model_to_string()
    return text


def sources_of(sight: Sight, also: Sight | None = None) -> dict[str, str | None]:
    """Returns every source by name, with why it is missing for a graph (or for what it is learned from), or None."""
    return {
        name: SOURCES[name].unavailable(sight) or (None if also is None else SOURCES[name].unavailable(also))
        for name in SOURCES
    }
