"""Chooses how answers are ranked, by what lists are worth on validation links: none of it is decided by a guess.

Compared are every source by itself, trees of the second stage, the first scorer over their best candidates, and blends
of two. So what answers by default is, on validation links, no worse than any of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.task import LinkTask
from headtail.serving.budgets import find_budgets
from headtail.serving.candidates import SOURCES, Candidates, Lists
from headtail.serving.cells import heads_at_once
from headtail.serving.columns import FEATURE_COLUMNS
from headtail.serving.cost import too_dear
from headtail.serving.described import Described
from headtail.serving.held import candidates_per_head, share_held
from headtail.serving.plan import FIGURES, FIRST, AnswerPlan, Choice, Judged, Trees
from headtail.serving.rankings import ByScorer, BySource, ByTrees, Narrowed, blended
from headtail.serving.second_stage import hide, learn_trees, learning_lists, sources_of
from headtail.serving.sight import Sight
from headtail.serving.topk import best_candidates
from headtail.serving.trees_text import plain_trees

# Heads with validation links that rankings are compared on.
HEADS_COMPARED = 1000
# Trees that are tried: the first so many of them.
COUNTS = (25, 75, 200)
SHARES = (0.25, 0.5, 0.75)
ALL, LINKS_ONLY = "second stage", "second stage without features"
# What narrows the candidates for all of these: so many trees without features.
FIRST_LOOK, LOOKS = "first look", 25


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

    def blend(self, one: str, other: str) -> None:
        """Judges blends of two rankings."""
        for share in SHARES:
            pairs = zip(self.scores[one], self.scores[other], strict=True)
            self._judge(Choice(one, other, share), [blended(left, right, share) for left, right in pairs])

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
    """Finds budgets, learns trees, compares rankings on the validation links, and returns what is best.

    Args:
        task: only its training links are evidence, also for what is learned.
        first: the trained method, encoded from the training view.
        seed: fixes what is hidden and drawn.
        described: what was made of the nodes' features already.
    """
    known = task.train_view.out_rows
    full, hidden = Sight.of(task.train_view, described or task.graph.features), hide(task.train_view, seed)
    rest = Sight.of(hidden.view, full.described)
    missing = sources_of(full, rest)
    names = [name for name, why in missing.items() if why is None]
    left_out = {name: why for name, why in missing.items() if why is not None}
    truth = AllNodesTruth.of(task, "valid", HEADS_COMPARED)
    sources = [SOURCES[name](full) for name in names]
    candidates = Candidates(sources, find_budgets(sources, truth, known))
    trees = _learned(Candidates([SOURCES[name](rest) for name in names], candidates.budgets), hidden.links, seed)
    blocks = torch.split(truth.heads, heads_at_once(full.num_nodes))
    found = Comparison(truth, [candidates.lists(block, known) for block in blocks])
    for name in names:
        found.add(name, [BySource(name).rank(lists) for lists in found.lists])
    _add_trees(found, trees, full)
    by_trees = (
        found.best({name: each for name, each in trees.items() if name != FIRST_LOOK}).one
        if trees
        else found.best().one
    )
    by_source = found.best(dict.fromkeys(names)).one
    pairs = [(by_trees, by_source)]
    if dear := too_dear(first):
        left_out[FIRST] = dear
    else:
        scorer = ByScorer(first, BySource(names[0]))
        before = found.scores[by_trees]
        found.add(FIRST, [scorer.rank_best(lists, each) for lists, each in zip(found.lists, before, strict=True)])
        pairs = [(by_trees, FIRST), (by_source, FIRST), *pairs]
    for one, other in pairs:
        if one != other:
            found.blend(one, other)
    choice = found.best()
    wanted = {choice.one, choice.other, by_trees, FIRST_LOOK}
    return AnswerPlan(
        budgets=dict(candidates.budgets),
        trees={name: each for name, each in trees.items() if name in wanted},
        choice=choice,
        shortlist=by_trees,
        first_look=FIRST_LOOK if trees else None,
        table=[Judged(each, figures) for each, figures in found.judged.items()],
        left_out=left_out,
        held={} if dear else share_held(candidates, first, truth.heads, known),
        per_head=candidates_per_head(candidates, truth.heads, known),
    )


def _learned(candidates: Candidates, hidden: Tensor, seed: int) -> dict[str, Trees]:
    """Returns trees that read all columns, and some that read no features, which may be newer than the links."""
    lists = learning_lists(candidates, hidden, seed) if hidden.shape[1] else None
    if lists is None:
        return {}
    without = [name for name in lists.names if name not in FEATURE_COLUMNS]
    kinds = {ALL: list(lists.names)} | ({} if len(without) == len(lists.names) else {LINKS_ONLY: without})
    found: dict[str, Trees] = {}
    for kind, columns in kinds.items():
        text = learn_trees(lists, columns, seed)
        found |= {f"{kind}, {count} trees": Trees(columns, plain_trees(text, len(columns), count)) for count in COUNTS}
    # The last kind reads links alone.
    return found | {FIRST_LOOK: Trees(without, plain_trees(text, len(without), LOOKS))}


def _add_trees(found: Comparison, trees: Mapping[str, Trees], sight: Sight) -> None:
    made = {name: ByTrees(each.text, tuple(each.columns), sight) for name, each in trees.items()}
    first_look = made.pop(FIRST_LOOK, None)
    if first_look is None:
        return
    scores = [
        Narrowed(first_look, first_look).rank_all(lists, list(made.values()), found.truth.answers)
        for lists in found.lists
    ]
    for place, name in enumerate(made):
        found.add(name, [each[place] for each in scores])
