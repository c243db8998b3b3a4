"""What is said of how answers are made: what candidates hold, what was compared, what was too dear to ask."""

import json
from dataclasses import replace

import pytest
import torch
from test_topk import TableScorer

from headtail import LinkPredictor
from headtail.card import model_card
from headtail.config import make_config
from headtail.errors import RunError
from headtail.graph.csr import CSR
from headtail.graph.task import LinkTask, make_task
from headtail.methods import make_method
from headtail.serving import choice, held, lists
from headtail.serving.answers import Answers
from headtail.serving.candidates import SOURCES, Candidates
from headtail.serving.cost import too_dear
from headtail.serving.held import candidates_per_head, kinds_of, share_held
from headtail.serving.lists import heads_to_ask, judge_lists
from headtail.serving.plan import FIRST, AnswerPlan, Choice
from headtail.serving.sight import Sight
from headtail.serving.told import compared_rows, held_rows, how, told
from random_graphs import as_pairs
from tiny_runs import small_graph, trained

SOURCE = "paths"


def scorer_of(task: LinkTask) -> TableScorer:
    """A scorer that knows no better than chance, with ties."""
    generator = torch.Generator().manual_seed(5)
    return TableScorer(torch.randint(40, (60, 60), generator=generator).float())


@pytest.fixture(scope="module")
def task() -> LinkTask:
    return make_task(small_graph(), make_config("fast", settings={"eval_negatives": 20}))


@pytest.fixture(scope="module")
def plan(task: LinkTask) -> AnswerPlan:
    return choice.choose(task, scorer_of(task), seed=0)


# ---- what candidates hold ----


def test_kinds_of_heads_are_by_their_links() -> None:
    sizes = [0, 3, 4, 20, 21, 25]
    links = torch.tensor([[head, tail] for head, size in enumerate(sizes) for tail in range(size)]).T
    found = kinds_of(torch.tensor([5, 1, 2, 0, 3, 4]), CSR.from_links(links, 30))
    assert {kind: heads.tolist() for kind, heads in found.items()} == {"few": [1, 0], "some": [2, 3], "many": [5, 4]}
    assert list(kinds_of(torch.tensor([2]), CSR.from_links(links, 30))) == ["some"]


def test_what_candidates_hold_is_counted(task: LinkTask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against sets: the ten best of all nodes by a full sort, and what a source proposes head by head."""
    monkeypatch.setattr(held, "KINDS", {"few": 4, "some": 5, "many": None})
    view = task.train_view
    candidates = Candidates([SOURCES[SOURCE](Sight.of(view))], {SOURCE: 4})
    scorer, known = scorer_of(task), view.out_rows
    heads = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    linked = as_pairs(view.links)
    wanted: dict[str, list[int]] = {}
    counts = []
    for head in heads.tolist():
        degree = sum(one == head for one, _ in linked)
        kind = "few" if degree <= 4 else "some" if degree <= 5 else "many"
        rest = [tail for tail in range(60) if tail != head and (head, tail) not in linked]
        best = sorted(rest, key=lambda tail: (-scorer.table[head, tail].item(), tail))[:10]
        proposed = set(candidates.lists(torch.tensor([head]), known, least=10).tails[0].tolist()) - {-1}
        counts.append(len(proposed))
        wanted.setdefault(kind, []).append(len(proposed & set(best)))
    found = share_held(candidates, scorer, heads, known)
    assert found == pytest.approx({kind: sum(hits[:10]) / (10 * len(hits[:10])) for kind, hits in wanted.items()})
    assert 0 < min(found.values()) < 1
    assert candidates_per_head(candidates, heads, known) == pytest.approx(sum(counts) / 60)


def test_all_nodes_hold_all(task: LinkTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "BEST", 59)  # so many candidates are wanted, and filled up to
    candidates = Candidates([SOURCES[SOURCE](Sight.of(task.train_view))], {SOURCE: 1})
    found = share_held(candidates, scorer_of(task), torch.arange(60), task.train_view.out_rows)
    assert set(found.values()) == {1.0}


def test_dear_scorers_are_asked_by_fewer_heads(task: LinkTask) -> None:
    candidates = Candidates([SOURCES[SOURCE](Sight.of(task.train_view))], {SOURCE: 4})
    asked: list[int] = []

    class Counting(TableScorer):
        def score_rows(self, heads: torch.Tensor, first: int, last: int) -> torch.Tensor:
            asked.append(heads.numel())
            return super().score_rows(heads, first, last)

    scorer = Counting(scorer_of(task).table)
    for microseconds, heads in ((0.03, 10), (1e6 * held.SECONDS / (3 * 60 * 5), 5), (1e9, 3)):
        scorer.pair_microseconds = microseconds
        asked.clear()
        share_held(candidates, scorer, torch.arange(60), task.train_view.out_rows)
        assert max(asked) == heads


# ---- what was compared ----


@pytest.mark.slow
def test_everything_that_was_compared_is_told(plan: AnswerPlan) -> None:
    answers = told(plan)
    assert json.loads(json.dumps(answers)) == answers
    assert (answers["exact"], answers["choice"]) == (False, str(plan.choice))
    names = [each["choice"] for each in answers["compared"]]
    assert names[0] == answers["choice"]
    assert {FIRST, *plan.budgets} <= set(names)
    worths = [each["recall@10"] + each["recall@50"] + each["mrr@50"] for each in answers["compared"]]
    assert worths == sorted(worths, reverse=True)
    rows = compared_rows(answers)
    assert rows[0] == (names[0], *(f"{100 * answers['compared'][0][name]:.2f}" for name in choice.FIGURES))
    assert answers["left_out"].keys() == set(SOURCES) - set(plan.budgets)
    assert answers["left_out"]["recent"] == "links are not dated"
    assert 0 < answers["candidates"] < 60
    assert answers["budgets"] == {name: budget for name, budget in plan.budgets.items() if budget}


@pytest.mark.slow
def test_a_plan_that_is_kept_tells_the_same(plan: AnswerPlan) -> None:
    again = AnswerPlan.from_json(plan.as_json().encode(), "it")
    assert told(again) == told(plan)
    content = json.loads(plan.as_json())
    del content["table"][0]["figures"]["mrr@50"]
    with pytest.raises(RunError, match=r"it is damaged \(a comparison lacks figures\)"):
        AnswerPlan.from_json(json.dumps(content).encode(), "it")


@pytest.mark.slow
def test_one_line_says_how(plan: AnswerPlan) -> None:
    answers = told(replace(plan, held={"few": 0.974, "many": 0.5}, per_head=1234.4))
    assert how(answers) == (
        f"ranked by {plan.choice}, over about 1,234 candidates a head, which hold of the 10 best of all nodes: "
        "97 % (up to 3 links), 50 % (over 20 links)"
    )
    assert held_rows(answers) == [("up to 3 links", "97 %"), ("over 20 links", "50 %")]
    assert how(told(replace(plan, held={}, per_head=0.0))) == f"ranked by {plan.choice}"
    assert how(told(None)) == "ranked by the method's own score, over all nodes"
    assert compared_rows(told(None)) == held_rows(told(None)) == []
    strange = replace(plan, choice=Choice("a\x1b[2J\nb"))
    assert how(told(strange)).isprintable()


# ---- what is dear ----


@pytest.mark.slow
def test_a_dear_scorer_is_not_compared_and_that_is_said(task: LinkTask, plan: AnswerPlan) -> None:
    scorer = scorer_of(task)
    scorer.pair_microseconds = 3000
    scorer.table = scorer.table * torch.nan  # whoever asks it is found out
    found = choice.choose(task, scorer, seed=0)
    assert found.left_out[FIRST] == "it takes 3 ms a pair, about 0.3 s for 100 of a head"
    assert not found.asks_first
    assert found.held == {}
    kept = [each for each in plan.table if FIRST not in (each.choice.one, each.choice.other)]
    assert found.table == kept
    assert found.choice == max(kept, key=lambda each: choice.worth(each.figures)).choice


@pytest.mark.parametrize("name", ["seal", "degnn"])
def test_methods_of_a_subgraph_per_pair_are_dear(name: str, task: LinkTask) -> None:
    config = make_config("fast", settings={"method": name, "hidden": 4, "device": "cpu"})
    assert "ms a pair" in str(too_dear(make_method(task, config).scorer(task.train_view)))
    assert too_dear(scorer_of(task)) is None


def test_fewer_heads_where_a_head_is_dear(task: LinkTask) -> None:
    scorer = scorer_of(task)
    answers = Answers.exactly(scorer)
    assert heads_to_ask(answers, None) == (1500, None)
    scorer.pair_microseconds = 1e6 * lists.SECONDS / (60 * 25.5)
    most, why = heads_to_ask(answers, None)
    assert most == 25
    assert str(why).startswith(
        "Only 25 heads at most were asked for lists, not 1,500: all 60 nodes are scored for each"
    )
    assert heads_to_ask(answers, 200) == (200, None)  # who says so gets them
    scorer.pair_microseconds *= 3
    assert heads_to_ask(answers, None)[0] == 0
    plan = AnswerPlan({SOURCE: 5}, {}, Choice(SOURCE), SOURCE)
    assert heads_to_ask(Answers(60, lambda: scorer, Sight.of(task.train_view), plan), None) == (1500, None)


def test_the_record_says_why_heads_are_few(task: LinkTask, caplog: pytest.LogCaptureFixture) -> None:
    scorer = scorer_of(task)
    answers = Answers.exactly(scorer)
    assert judge_lists(answers, task, "test", 0) == {}
    whole = judge_lists(answers, task, "test", None)
    assert list(whole) == ["all_nodes"]
    scorer.pair_microseconds = 1e6 * lists.SECONDS / (60 * 11)
    with caplog.at_level("INFO", "headtail"):
        few = judge_lists(answers, task, "test", None)
    assert few["all_nodes"]["heads"] == 11 < whole["all_nodes"]["heads"]
    assert caplog.messages == [few["fewer_heads"]]
    scorer.pair_microseconds = 1e9
    none = judge_lists(answers, task, "test", None)
    assert list(none) == ["fewer_heads"]
    assert none["fewer_heads"].startswith("No heads were asked for lists")


# ---- the card and evaluate ----


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return trained(epochs=1, answers="chosen")


@pytest.mark.slow
def test_the_card_shows_the_plan(model: LinkPredictor) -> None:
    result = model.evaluate()
    answers = result["answers"]
    assert answers == told(model.answering.plan)
    card = model_card(model.method, model.config, result, finished=True)
    assert f"Answers are {how(answers)}." in card
    for row in (*compared_rows(answers), *held_rows(answers)):
        assert f"| {' | '.join(row)} |" in card
    assert "Not compared: " in card
    assert "recent: links are not dated" in card
    for name, budget in answers["budgets"].items():
        assert f"{name} {budget}" in card


def test_the_card_of_answers_from_all_nodes_has_no_table() -> None:
    model = trained(epochs=1)
    result = model.evaluate()
    assert result["answers"] == {"choice": FIRST, "exact": True}
    card = model_card(model.method, model.config, result, finished=True)
    assert "Answers are ranked by the method's own score, over all nodes." in card
    assert "Not compared" not in card
    fewer = model_card(model.method, model.config, result | {"fewer_heads": "Only 11 heads."}, finished=True)
    assert "Only 11 heads." in fewer
    none = {name: value for name, value in result.items() if name != "all_nodes"} | {"fewer_heads": "No heads."}
    assert "\nNo heads.\n" in model_card(model.method, model.config, none, finished=True)
    assert "answers" not in model.evaluate(heads_sampled=0)
