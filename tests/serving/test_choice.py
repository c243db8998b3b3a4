"""What answers is chosen on the validation links: never worse there than a source, and blind to the test."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
import torch
from plans import Noise, first_scorer, quickly, small_task
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.all_nodes import AllNodesTruth
from headtail.graph.csr import CSR
from headtail.graph.task import LinkTask
from headtail.serving.answering import Answering
from headtail.serving.answers import Answers, best_tails
from headtail.serving.candidates import SOURCES
from headtail.serving.choice import choose, worth
from headtail.serving.described import Described
from headtail.serving.plan import FIRST, AnswerPlan, Choice
from headtail.serving.rankings import ByColumns, ByNetwork, ByTrees
from headtail.serving.sight import Sight
from random_graphs import random_links
from tiny_runs import small_graph, trained

WAYS = pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quickly(monkeypatch)


def noise(learned: ByColumns, columns: Mapping[str, Tensor], there: Tensor, k: int = 1) -> Tensor:
    """Stands in for what was learned: says something that means nothing."""
    seed = len(learned.model) if isinstance(learned, ByTrees) else 0
    drawn = torch.rand(there.shape, generator=torch.Generator().manual_seed(seed))
    return drawn.masked_fill(~there, -torch.inf)


def judged_again(task: LinkTask, plan: AnswerPlan, first: Scorer) -> dict[str, float]:
    """Returns what the answers of a plan are worth on the validation links, asked for as anyone would."""
    truth = AllNodesTruth.of(task, "valid")
    answers = Answers(task.graph.num_nodes, lambda: first, Sight.of(task.train_view, task.graph.features), plan)
    return truth.judge(best_tails(answers, truth.heads, truth.answers, known=task.train_view.out_rows))


@WAYS
@pytest.mark.parametrize("dated", [True, False])
def test_the_chosen_is_no_worse_than_anything_compared(directed: bool, dated: bool) -> None:
    task = small_task(directed, dated)
    first = first_scorer(task.train_view)
    plan = choose(task, first, 0)
    table = {str(each.choice): each.figures for each in plan.table}
    assert len(table) == len(plan.table)
    assert set(plan.budgets) <= set(table)
    assert FIRST in table
    assert any(each.choice.other for each in plan.table)
    assert worth(table[str(plan.choice)]) == max(map(worth, table.values()))
    assert {*plan.trees, *plan.networks} <= {plan.choice.one, plan.choice.other, plan.shortlist}
    for each in plan.table:  # the table tells what who asks will get
        named = {each.choice.one, each.choice.other or FIRST, plan.shortlist} - {FIRST} - set(plan.budgets)
        if named <= {*plan.trees, *plan.networks}:
            assert judged_again(task, replace(plan, choice=each.choice), first) == pytest.approx(each.figures)


@WAYS
def test_where_all_that_learned_is_sabotaged_a_heuristic_answers(
    directed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ByTrees, "rank_columns", noise)
    monkeypatch.setattr(ByNetwork, "rank_columns", noise)
    task = small_task(directed)
    plan = choose(task, Noise(60), 0)
    assert plan.choice.one in SOURCES or plan.choice.other in SOURCES
    figures = {each.choice: each.figures for each in plan.table}
    sources = {name: worth(figures[Choice(name)]) for name in plan.budgets}
    assert worth(figures[plan.choice]) >= max(sources.values())
    assert worth(figures[Choice(FIRST)]) < max(sources.values())
    assert all(worth(figures[Choice(name)]) < max(sources.values()) for name in plan.trees)


def test_only_the_first_scorer_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ByTrees, "rank_columns", noise)
    monkeypatch.setattr(ByNetwork, "rank_columns", noise)
    task = small_task()
    wanted = CSR.from_links(task.split.valid.positives, 60)

    class Knows(Noise):
        def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
            return wanted.contains(heads, tails).float() + self.table[heads, tails] / 2

    assert choose(task, Knows(60), 0).choice == Choice(FIRST)


def other_test_links(task: LinkTask) -> LinkTask:
    """Returns the task with a third of other test links, of other negatives."""
    test = task.split.test
    drawn = random_links(60, 3 * test.positives.shape[1], True, seed=9)
    other = replace(test, positives=drawn, times=None)
    return replace(task, split=replace(task.split, test=other))


def other_graph(task: LinkTask) -> LinkTask:
    """Returns the task with a graph that holds no link but those of training and validation."""
    links = torch.cat([task.split.train, task.split.valid.positives], dim=1)
    return replace(task, graph=replace(task.graph, links=links, times=None))


@pytest.mark.parametrize("change", [other_test_links, other_graph])
@WAYS
def test_the_test_links_are_not_looked_at(directed: bool, change: Callable[[LinkTask], LinkTask]) -> None:
    task = small_task(directed)
    found = choose(task, first_scorer(task.train_view), 0).as_json()
    assert choose(change(task), first_scorer(task.train_view), 0).as_json() == found
    assert choose(task, first_scorer(task.train_view), 0).as_json() == found


@pytest.mark.slow
def test_who_learns_nothing_and_who_has_no_links_to_choose_by_has_no_plan() -> None:
    assert trained(method="ra", answers="chosen").answering.plan is None
    kept = trained(epochs=1, answers="chosen", protocol="val-as-train")
    assert kept.answering.plan is None
    assert kept.recommend(["p00"], k=3).equals(kept.recommend(["p00"], k=3, exact=True))
    assert trained(epochs=1, answers="exact").answering.plan is None


def test_a_plan_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(task: LinkTask, first: Scorer, seed: int, described: Described | None) -> AnswerPlan:
        calls.append(seed)
        return choose(task, first, seed, described)

    monkeypatch.setattr("headtail.serving.answering.choose", counted)
    model = trained(small_graph(dated=True), epochs=1, answers="chosen", seed=3)
    assert calls == []
    for _ in range(2):
        model.recommend(["p00"], k=3)
        model.recommend(["p00"], k=3, evidence="training")
        model.evaluate(heads_sampled=5)
    assert calls == [3]
    again = Answering(model.method, model.config, model.answering.plan)
    assert again.plan is model.answering.plan
