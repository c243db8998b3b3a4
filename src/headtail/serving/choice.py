"""Chooses how answers are ranked, by what lists are worth on validation links: none of it is decided by a guess.

Compared are every source by itself, trees and a network of the second stage, the first scorer over their best
candidates, and blends of two. So what answers by default is, on validation links, no worse than any of these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.task import LinkTask
from headtail.progress import counting
from headtail.serving.budgets import find_budgets
from headtail.serving.candidates import SOURCES, Candidates, Lists
from headtail.serving.cells import heads_at_once
from headtail.serving.columns import FEATURE_COLUMNS, columns_of
from headtail.serving.cost import too_dear
from headtail.serving.described import Described
from headtail.serving.held import candidates_per_head, share_held
from headtail.serving.network import Network, learn_network
from headtail.serving.plan import FIGURES, FIRST, AnswerPlan, Choice, Judged, Trees
from headtail.serving.rankings import ByColumns, ByNetwork, ByScorer, BySource, ByTrees, blended
from headtail.serving.second_stage import LearningLists, hide, learn_trees, learning_lists, sources_of
from headtail.serving.sight import Sight
from headtail.serving.topk import best_candidates
from headtail.serving.trees_text import plain_trees

# Heads with validation links that rankings are compared on.
HEADS_COMPARED = 1500
# Trees that are tried: the first so many of them.
COUNTS = (48, 152, 400)
SHARES = (0.25, 0.5, 0.75)
NETWORK = "network"
# Of choosing, about equally long: budgets, lists to learn from, trees, a network with all that is compared by it.
STAGES = 4
# What trees read, as said after their number.
ALL, LINKS_ONLY = "", " without features"


@dataclass
class Comparison:
    """Scores of the same candidates by several rankings, and what lists by them are worth.

    Attributes:
        truth: the validation links to be named.
        lists: the candidates, block by block.
        scores: by ranking, float32 [B, T] of every block.
    """

    truth: AllNodesTruth
    lists: list[Lists]
    scores: dict[str, list[Tensor]] = field(default_factory=dict)
    judged: dict[Choice, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, scores: list[Tensor]) -> None:
        """Judges one more ranking."""
        self.scores[name] = scores
        self._judge(Choice(name), scores)

    def add_learned(self, learned: Mapping[str, ByColumns]) -> None:
        """Judges what reads columns, which are read once for all."""
        scores: dict[str, list[Tensor]] = {name: [] for name in learned}
        for lists in self.lists if learned else ():
            columns = columns_of(lists, next(iter(learned.values())).sight)
            for name, ranking in learned.items():
                scores[name].append(ranking.rank_columns(columns, lists.tails >= 0, self.truth.answers))
        for name, each in scores.items():
            self.add(name, each)

    def blend(self, one: str, other: str) -> None:
        """Judges blends of two rankings."""
        for share in SHARES:
            pairs = zip(self.scores[one], self.scores[other], strict=True)
            k = self.truth.answers
            self._judge(Choice(one, other, share), [blended(left, right, share, k) for left, right in pairs])

    def best(self, among: Mapping[str, object] | None = None) -> Choice:
        """Returns the choice of the most worth, of those named `among`; the first of equals."""
        known = (
            self.judged if among is None else {c: f for c, f in self.judged.items() if c.one in among and not c.other}
        )
        return max(known, key=lambda choice: worth(known[choice]))

    def _judge(self, choice: Choice, scores: list[Tensor]) -> None:
        parts = [
            best_candidates(lists, each, self.truth.answers).tails
            for lists, each in zip(self.lists, scores, strict=True)
        ]
        self.judged[choice] = self.truth.judge(torch.cat(parts))


def worth(figures: Mapping[str, float]) -> float:
    """Returns the one number that choices are made by: links in short lists, in long ones, and how high they stand."""
    return sum(figures[name] for name in FIGURES)


def choose(task: LinkTask, first: Scorer, seed: int, described: Described | None = None) -> AnswerPlan:
    """Finds budgets, learns trees and a network, compares rankings on the validation links; returns what is best.

    Args:
        task: only its training links are evidence, also for what is learned.
        first: the trained method, encoded from the training view.
        seed: fixes what is hidden and drawn.
        described: what was made of the nodes' features already.
    """
    with counting("choosing how to answer", STAGES) as advance:
        return _chosen(task, first, seed, described, advance)


def _chosen(
    task: LinkTask, first: Scorer, seed: int, described: Described | None, advance: Callable[[float], None]
) -> AnswerPlan:
    known = task.train_view.out_rows
    full, hidden = Sight.of(task.train_view, described or task.graph.features), hide(task.train_view, seed)
    rest = Sight.of(hidden.view, full.described)
    missing = sources_of(full, rest)
    names = [name for name, why in missing.items() if why is None]
    left_out = {name: why for name, why in missing.items() if why is not None}
    truth = AllNodesTruth.of(task, "valid", HEADS_COMPARED)
    sources = [SOURCES[name](full) for name in names]
    candidates = Candidates(sources, find_budgets(sources, truth, known))
    advance(1)
    learning = Candidates([SOURCES[name](rest) for name in names], candidates.budgets)
    read = learning_lists(learning, hidden.links, seed) if hidden.links.shape[1] else None
    advance(1)
    blocks = torch.split(truth.heads, heads_at_once(full.num_nodes))
    found = Comparison(truth, [candidates.lists(block, known) for block in blocks])
    for name in names:
        found.add(name, [BySource(name).rank(lists) for lists in found.lists])
    trees = {} if read is None else _trees(read, seed)
    found.add_learned({name: ByTrees(tuple(each.columns), full, each.text) for name, each in trees.items()})
    advance(1)
    networks = {} if read is None else {NETWORK: _network(read, trees[found.best(trees).one].columns, seed)}
    found.add_learned({name: ByNetwork(tuple(each.columns), full, each) for name, each in networks.items()})
    advance(1)
    by_source, learned = found.best(dict.fromkeys(names)).one, found.best({**trees, **networks} or None).one
    pairs = [(learned, by_source)]
    if networks:
        pairs.append((found.best(trees).one, NETWORK))
    if dear := too_dear(first):
        left_out[FIRST] = dear
    else:
        scorer, before = ByScorer(first, BySource(names[0])), found.scores[learned]
        k = truth.answers
        found.add(FIRST, [scorer.rank_best(lists, each, k) for lists, each in zip(found.lists, before, strict=True)])
        pairs = [(learned, FIRST), (by_source, FIRST), *pairs]
    for one, other in pairs:
        if one != other:
            found.blend(one, other)
    choice = found.best()
    wanted = {choice.one, choice.other, learned}
    return AnswerPlan(
        budgets=dict(candidates.budgets),
        trees={name: each for name, each in trees.items() if name in wanted},
        networks={name: each for name, each in networks.items() if name in wanted},
        choice=choice,
        shortlist=learned,
        table=[Judged(each, figures) for each, figures in found.judged.items()],
        left_out=left_out,
        held={} if dear else share_held(candidates, first, truth.heads, known),
        per_head=candidates_per_head(candidates, truth.heads, known),
    )


def _trees(read: LearningLists, seed: int) -> dict[str, Trees]:
    """Returns trees that read all columns, and some that read no features, which may be newer than the links."""
    without = [name for name in read.names if name not in FEATURE_COLUMNS]
    kinds = {ALL: list(read.names)} | ({} if len(without) == len(read.names) else {LINKS_ONLY: without})
    found: dict[str, Trees] = {}
    for kind, columns in kinds.items():
        text = learn_trees(read, columns, seed)
        found |= {f"{count} trees{kind}": Trees(columns, plain_trees(text, len(columns), count)) for count in COUNTS}
    return found


def _network(read: LearningLists, columns: list[str], seed: int) -> Network:
    """Returns a network that reads the given columns."""
    chosen = read.places_of(columns)
    return learn_network(columns, read.columns[:, chosen], read.standing[:, chosen], read.right, read.sizes, seed)
