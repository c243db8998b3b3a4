"""The second stage: trees and networks that rank a head's candidates, learned from training links that were hidden.

What is hidden are the newest links where links are dated, given the older ones, as the future will ask; a tenth of
the links where they are not. Everything that is read is read off the links that remain.
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
from headtail.serving.columns import columns_of, first_of, standing, table_of
from headtail.serving.network import as_logarithm
from headtail.serving.sight import Sight
from headtail.serving.trees_text import in_turn

# Of undated links, so many are hidden to learn from.
HIDDEN_SHARE = 0.1
# Heads that are learned from, and how many of each one's wrong candidates. Any of them are as good as others: were
# those of high places preferred, trees would learn that high places are wrong.
MOST_HEADS, WRONG = 16000, 150
# The sum of some models varies less than one does: so many, of so many trees, each from so many of the heads
# and this share of the wrong. A network gains more by more heads, and takes less time for them.
MODELS, ROUNDS, HEADS_OF_MODEL, SHARE = 4, 100, 8000, 0.67
# How trees grow.
GROWTH = {
    "objective": "rank_xendcg",
    "learning_rate": 0.1,
    "num_leaves": 31,
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
    """Candidates of heads that lost links, as the second stage reads them.

    Attributes:
        columns: float32 [C, columns].
        standing: float32 [C, columns], where each stands among all candidates of its head.
        names: of the columns.
        right: bool [C], whether a candidate is a hidden link.
        sizes: int64 [H], the candidates of each head.
    """

    columns: Tensor
    standing: Tensor
    names: tuple[str, ...]
    right: Tensor
    sizes: Tensor

    def places_of(self, names: Sequence[str]) -> list[int]:
        """Returns where the named columns are."""
        return [self.names.index(name) for name in names]


def learning_lists(candidates: Candidates, hidden: Tensor, seed: int) -> LearningLists | None:
    """Draws heads that lost links [2, E] and lists their candidates; None where no candidate is a hidden link.

    All right candidates are kept, and a sample of the wrong ones.
    """
    sight = candidates.sight
    links = hidden if sight.directed else both_ways(hidden)
    lost = CSR.from_links(links, sight.num_nodes)
    heads = (lost.degrees > 0).nonzero().squeeze(1)
    generator = torch.Generator().manual_seed(seed)
    heads = heads[torch.randperm(heads.numel(), generator=generator)[:MOST_HEADS]].sort().values
    parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    names: tuple[str, ...] = ()
    for block in torch.split(heads, heads_at_once(sight.num_nodes)):
        lists = candidates.lists(block, sight.view.out_rows)
        columns, wanted, there = columns_of(lists, sight), _wanted(lists, lost), lists.tails >= 0
        names = tuple(columns)
        drawn = torch.rand(there.shape, generator=generator)
        learned = wanted | first_of(drawn, there & ~wanted, WRONG)
        learned &= wanted.any(dim=1, keepdim=True)
        stands = {name: standing(as_logarithm(column), there) for name, column in columns.items()}
        sizes = learned.sum(dim=1)
        parts.append(
            (table_of(columns, names, learned), table_of(stands, names, learned), wanted[learned], sizes[sizes > 0])
        )
    whole = [torch.cat(each) for each in zip(*parts, strict=True)]
    return LearningLists(whole[0], whole[1], names, whole[2], whole[3]) if whole and bool(whole[2].any()) else None


def _wanted(lists: Lists, lost: CSR) -> Tensor:
    """Returns bool [B, T]: which candidates are links that the head lost."""
    heads = lists.heads[:, None].expand_as(lists.tails)
    found = lost.contains(heads.reshape(-1), lists.tails.clamp(min=0).reshape(-1)).view_as(lists.tails)
    return found & (lists.tails >= 0)


def learn_trees(lists: LearningLists, names: Sequence[str], seed: int) -> str:
    """Returns trees of several models over the named columns, in turn, as text (see `plain_trees`)."""
    import lightgbm

    generator = np.random.default_rng(seed)
    table = lists.columns[:, lists.places_of(names)].numpy()
    right = lists.right.numpy()
    head = np.repeat(np.arange(len(lists.sizes)), lists.sizes.numpy())
    texts: list[str] = []
    for model in range(MODELS):
        asked = generator.permutation(len(lists.sizes)) < HEADS_OF_MODEL
        some = asked[head] & (right | (generator.random(len(right)) < SHARE))
        sizes = np.bincount(head[some])
        sizes = sizes[sizes > 0]
        data = lightgbm.Dataset(table[some], right[some].astype(np.float32), group=sizes, params={"verbosity": -1})
        settings = GROWTH | {"seed": (MODELS * seed + model) % 2**31, "num_threads": torch.get_num_threads()}
        texts.append(lightgbm.train(settings, data, ROUNDS).model_to_string())
    return in_turn(texts, len(names))


def sources_of(sight: Sight, also: Sight | None = None) -> dict[str, str | None]:
    """Returns every source by name, with why it is missing for a graph (or for what it is learned from), or None."""
    return {
        name: SOURCES[name].unavailable(sight) or (None if also is None else SOURCES[name].unavailable(also))
        for name in SOURCES
    }
