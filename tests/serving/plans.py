"""Plans and tasks for tests of what answers: quick ones, and a graph whose links follow two rules at once."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
import torch

from headtail.baselines.heuristics import HEURISTICS
from headtail.config import make_config
from headtail.contract import Scorer
from headtail.datasets.raw import RawGraph
from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.graph import build_graph
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from headtail.serving import choice, network, second_stage
from headtail.serving.answers import Answers, best_tails
from headtail.serving.plan import AnswerPlan, Choice
from headtail.serving.sight import Sight
from tiny_runs import SMALL, small_graph

COMMUNITIES, COLOURS = 8, 4


def quickly(patch: pytest.MonkeyPatch) -> None:
    """Lets little be learned."""
    patch.setattr(network, "EPOCHS", 2)
    patch.setattr(second_stage, "ROUNDS", 3)
    patch.setattr(choice, "COUNTS", (2, 9))


def small_task(directed: bool = True, dated: bool = True) -> LinkTask:
    return make_task(small_graph(directed, dated=dated), make_config("fast", settings=SMALL))


def first_scorer(view: GraphView, name: str = "ra") -> Scorer:
    return HEURISTICS[name]().scorer(view)


class Noise(Scorer):
    """Says of every pair something that means nothing, and always the same."""

    device = torch.device("cpu")

    def __init__(self, num_nodes: int, seed: int = 0) -> None:
        self.num_nodes = num_nodes
        self.table = torch.rand(num_nodes, num_nodes, generator=torch.Generator().manual_seed(seed))

    def score_pairs(self, heads: torch.Tensor, tails: torch.Tensor) -> torch.Tensor:
        return self.table[heads, tails]


def two_rules(seed: int = 0) -> LinkTask:
    """Nodes of a community have old links with each other; new links also ask for the same colour, which features tell.

    A community has 32 nodes, 8 of each colour.
    """
    random = np.random.default_rng(seed)
    nodes = COMMUNITIES * 32
    place = random.permutation(nodes)
    community, colour = place % COMMUNITIES, place // COMMUNITIES % COLOURS

    def drawn(allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]], each: int) -> list[tuple[int, int]]:
        return [
            (head, int(tail))
            for head in range(nodes)
            for tail in random.permutation(np.flatnonzero(allowed[head]))[:each]
        ]

    together = (community[:, None] == community) & ~np.eye(nodes, dtype=bool)
    old = drawn(together, 8)
    taken = np.zeros((nodes, nodes), dtype=bool)
    taken[tuple(np.array(old).T)] = True
    new = drawn(together & (colour[:, None] == colour) & ~taken, 3)
    links = np.array(
        [old[each] for each in random.permutation(len(old))] + [new[each] for each in random.permutation(len(new))]
    ).T
    features = np.eye(COLOURS)[colour] + 0.2 * random.standard_normal((nodes, COLOURS))
    raw = RawGraph(
        "two rules",
        nodes,
        links.astype(np.int64),
        True,
        times=np.arange(links.shape[1]),
        features=features.astype(np.float32),
    )
    return make_task(build_graph(raw), make_config("fast", settings=SMALL))


def figures_of(task: LinkTask, plan: AnswerPlan, ranking: str, part: str = "test") -> dict[str, float]:
    """Returns what lists by one ranking of a plan are worth on held-out links, ranked among all nodes."""
    truth = AllNodesTruth.of(task, part)
    sight = Sight.of(task.test_view, task.graph.features)
    answers = Answers(
        task.graph.num_nodes, lambda: first_scorer(task.test_view), sight, replace(plan, choice=Choice(ranking))
    )
    return truth.judge(best_tails(answers, truth.heads, truth.answers, known=task.train_view.out_rows))


def learned_trees(columns: int = 3, trees: int = 4, keep: int | None = None) -> str:
    """Returns the text of trees that tell large values of the first two columns from others; the first `keep` alone."""
    random = np.random.default_rng(0)
    table = random.random((400, columns)).astype(np.float32)
    data = lightgbm.Dataset(table, (table[:, 0] + table[:, 1] > 1).astype(np.float32), group=[40] * 10)
    settings = {"objective": "rank_xendcg", "verbosity": -1, "min_data_in_leaf": 5, "num_leaves": 6, "num_threads": 1}
    return str(lightgbm.train(settings, data, trees).model_to_string(num_iteration=keep or -1))
