"""Answers by a plan: exhaustive where all tails are candidates, and the same however they are asked for."""

import gc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plans import Noise, quickly
from scipy import sparse
from torch import Tensor

import headtail.serving.across
import headtail.serving.answering
from headtail import LinkPredictor
from headtail.baselines.heuristics import HEURISTICS
from headtail.contract import Scorer
from headtail.errors import DataError
from headtail.graph.csr import CSR
from headtail.graph.matrix import Matrix, Nodes
from headtail.graph.view import GraphView
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.scorer import HadamardScorer
from headtail.ranks import Ranks
from headtail.serving import cells, rankings
from headtail.serving.answering import Answering
from headtail.serving.answers import Answers
from headtail.serving.candidates import SOURCES, CandidateSource
from headtail.serving.plan import FIRST, AnswerPlan, Choice
from headtail.serving.sight import Sight
from headtail.serving.topk import TopK, top_k
from random_graphs import random_links, random_view, views
from threads_as_ranks import current, on_ranks
from tiny_runs import small_graph, trained


class Every(CandidateSource):
    """Names all tails."""

    name = "every"

    def scores(self, heads: Nodes) -> Matrix:
        return sparse.csr_array(np.ones((len(heads), self.sight.num_nodes), dtype=np.float32))


def gathered(blocks: Iterator[TopK]) -> TopK:
    return TopK(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))


def same(one: TopK, other: TopK) -> bool:
    return all(torch.equal(mine, its) for mine, its in zip(one, other, strict=True))


# ---- all tails are candidates ----


def embedding_scorer(view: GraphView, seed: int) -> EmbeddingScorer:
    """Returns a scorer of small whole numbers, so that scores are exact in any order of summing, and often equal."""
    generator = torch.Generator().manual_seed(seed)
    tables = torch.randint(-2, 3, (2, view.num_nodes, 3), generator=generator).float()
    mlp = HadamardScorer(3, 1, 0.0).eval()
    with torch.no_grad():
        mlp.last.weight.copy_(torch.randint(-2, 3, (1, 3), generator=generator))
        mlp.last.bias.fill_(0.5)
    return EmbeddingScorer(tables[0], tables[1], mlp, view.directed)


def scorer_of(kind: str, view: GraphView, seed: int) -> Scorer:
    return embedding_scorer(view, seed) if kind == "embeddings" else HEURISTICS[kind]().scorer(view)


@pytest.mark.parametrize("kind", ["cn", "ra", "popularity", "katz", "embeddings"])
@given(view=views(max_nodes=12), seed=st.integers(0, 100), data=st.data())
def test_a_source_of_all_tails_gives_the_exhaustive_answer(
    kind: str, view: GraphView, seed: int, data: st.DataObject
) -> None:
    n = view.num_nodes
    scorer = scorer_of(kind, view, seed)
    heads = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), max_size=n)), dtype=torch.long)
    k = data.draw(st.integers(1, n - 1))
    known = data.draw(st.sampled_from([None, view.out_rows, CSR.from_links(random_links(n, n, True, seed), n)]))
    among = data.draw(st.none() | st.lists(st.booleans(), min_size=n, max_size=n).filter(any).map(torch.tensor))
    plan = AnswerPlan({"every": n}, {}, Choice(FIRST), "every")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SOURCES._entries, "every", Every)
        patch.setattr(rankings, "SHORTLIST", n)
        answers = Answers(n, lambda: scorer, Sight.of(view), plan)
        found = list(answers.best(heads, k, known, among))
        exact = list(answers.best(heads, k, known, among, exact=True))
    wanted = list(top_k(scorer, heads, k, known=known, among=among))
    assert len(found) == len(exact) == len(wanted) == min(1, heads.numel())
    if wanted:
        assert same(found[0], wanted[0])
        assert same(exact[0], wanted[0])


@pytest.mark.parametrize("short", [1, 5])
def test_the_first_scorer_ranks_as_many_as_are_asked_for(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES._entries, "every", Every)
    monkeypatch.setattr(rankings, "SHORTLIST", short)
    view = random_view(30, 90)
    scorer = Noise(30)
    heads = torch.arange(30)
    for choice in (Choice(FIRST), Choice("every", FIRST, 0.5)):
        answers = Answers(30, lambda: scorer, Sight.of(view), AnswerPlan({"every": 30}, {}, choice, "every"))
        for k in (1, 4, 17, 29):
            assert bool((gathered(answers.best(heads, k)).tails >= 0).all())
    last = gathered(
        Answers(30, lambda: scorer, Sight.of(view), AnswerPlan({"every": 30}, {}, Choice(FIRST), "every")).best(
            heads, 29
        )
    )
    assert same(last, gathered(top_k(scorer, heads, 29)))


# ---- asked in other ways ----

PLANS: dict[str, AnswerPlan] = {
    "a source": AnswerPlan({"paths": 4, "popular": 3}, {}, Choice("paths"), "paths"),
    "a source that proposes nothing": AnswerPlan({"paths": 0, "onward": 0}, {}, Choice("onward"), "onward"),
    "the first scorer": AnswerPlan({"common": 4}, {}, Choice(FIRST), "common"),
    "both": AnswerPlan({"common": 4, "paths": 2}, {}, Choice("common", FIRST, 0.25), "paths"),
}


def answers_of(plan: AnswerPlan, view: GraphView) -> Answers:
    return Answers(view.num_nodes, lambda: HEURISTICS["ra"]().scorer(view), Sight.of(view), plan)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("k", [1, 9, 28, 39])
def test_there_are_k_answers_where_k_exist(plan: AnswerPlan, k: int) -> None:
    view = random_view(40, 300, seed=4)
    known, heads = view.out_rows, torch.arange(40)
    for among in (None, torch.arange(40) % 2 == 0, torch.arange(40) == 7):
        found = gathered(answers_of(plan, view).best(heads, k, known, among))
        assert found.tails.shape == found.scores.shape == (40, k)
        for head, tails, scores in zip(heads.tolist(), found.tails.tolist(), found.scores.tolist(), strict=True):
            barred = {head, *known.block(head, head + 1).col.tolist()}
            allowed = {tail for tail in range(40) if (among is None or bool(among[tail])) and tail not in barred}
            named = [tail for tail in tails if tail >= 0]
            assert len(set(named)) == len(named) == min(k, len(allowed))
            assert set(named) <= allowed
            assert tails[len(named) :] == [-1] * (k - len(named))
            assert scores[len(named) :] == [-torch.inf] * (k - len(named))
            assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_short_list_is_the_beginning_of_a_long_one(plan: AnswerPlan) -> None:
    view = random_view(300, 1500, seed=5)
    answers, heads = answers_of(plan, view), torch.arange(0, 300, 7)
    longest = gathered(answers.best(heads, 90, view.out_rows)).tails
    for k in (1, 10, 60):
        assert torch.equal(gathered(answers.best(heads, k, view.out_rows)).tails, longest[:, :k])


def test_few_tails_to_answer_with_are_all_candidates() -> None:
    view = random_view(300, 1500, seed=6)
    among = torch.zeros(300, dtype=torch.bool)
    among[torch.arange(150, 270)] = True
    plan = replace(PLANS["the first scorer"], budgets={"common": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rankings, "SHORTLIST", 300)
        found = gathered(answers_of(plan, view).best(torch.arange(300), 20, view.out_rows, among))
    scorer = HEURISTICS["ra"]().scorer(view)
    assert same(found, gathered(top_k(scorer, torch.arange(300), 20, known=view.out_rows, among=among)))


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    """Answers by a blend of trees and the first scorer."""
    with pytest.MonkeyPatch.context() as patch:
        quickly(patch)
        found = trained(small_graph(dated=True), epochs=1, answers="chosen", evidence="degrees,common,paths")
        plan = found.answering.plan
        assert plan is not None
        name = next(iter(plan.trees), plan.shortlist)
        plan = replace(plan, choice=Choice(name, FIRST, 0.5), shortlist=name)
        found._answering = Answering(found.method, found.config, plan)
    return found


def close(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, rtol=1e-6)


@pytest.mark.parametrize("heads", [1, 7, 60])
def test_sizes_of_blocks_do_not_matter(heads: int, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = model.recommend(k=8)
    monkeypatch.setattr(cells, "MOST_HEADS", heads)
    monkeypatch.setattr(cells, "FEWEST_HEADS", 1)
    close(model.recommend(k=8), wanted)
    monkeypatch.setattr(cells, "MOST_CELLS", 60 * 3)  # fewer heads, and tables of what is said alone
    close(model.recommend(k=8), wanted)


def test_one_thread_and_two_answer_the_same(model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "MOST_HEADS", 5)
    monkeypatch.setattr(cells, "FEWEST_HEADS", 5)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        wanted = model.recommend(k=8)
        torch.set_num_threads(2)
        close(model.recommend(k=8), wanted)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("size", [2, 3])
def test_several_ranks_answer_as_one(size: int, model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    answers, known = model.answering.asked(), model.task.known
    wanted = gathered(answers.best(torch.arange(60), 8, known))
    monkeypatch.setattr(headtail.serving.across, "current", current)
    monkeypatch.setattr(headtail.serving.across, "HEADS_AT_ONCE", 4)

    def answer(ranks: Ranks) -> TopK:
        return gathered(answers.best(torch.arange(60), 8, known))

    for found in on_ranks(size, answer):
        assert torch.equal(found.tails, wanted.tails)
        torch.testing.assert_close(found.scores, wanted.scores)


def test_ranks_choose_one_plan(model: LinkPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = model.answering.plan
    assert plan is not None
    scorer = model.answering.scorer(model.task.train_view)
    monkeypatch.setattr(headtail.serving.answering, "current", current)
    monkeypatch.setattr(headtail.serving.answering, "choose", lambda *_asked: plan)

    def chosen(ranks: Ranks) -> AnswerPlan | None:
        answering = Answering(model.method, model.config)
        monkeypatch.setattr(answering, "scorer", lambda _view: scorer)
        return answering.plan

    assert on_ranks(3, chosen) == [plan] * 3


def test_exactly_means_as_before(model: LinkPredictor) -> None:
    plain = LinkPredictor(config=model.config.model_copy(deep=True))
    exact = plain.config.evaluation.model_copy(update={"answers": "exact"})
    plain = LinkPredictor(config=plain.config.model_copy(update={"evaluation": exact}))
    plain._answering = Answering(model.method, plain.config)
    for asked in ({}, {"leave_out": "nothing"}, {"among": ["p01", "p02", "p03", "p50"]}, {"exclude": "p07"}):
        wanted = plain.recommend(k=5, **asked)
        assert model.recommend(k=5, exact=True, **asked).equals(wanted)
        assert not model.recommend(k=5, **asked)["score"].equals(wanted["score"])


@pytest.mark.parametrize("asked", [{}, {"exact": True}, {"evidence": "training"}, {"among": ["p01", "p02", "p50"]}])
def test_probabilities_are_those_of_predict(asked: dict[str, Any], model: LinkPredictor) -> None:
    found = model.recommend(k=6, probability=True, prior=0.2, **asked)
    pairs = list(zip(found["head"], found["tail"], strict=True))
    wanted = model.predict(pairs, probability=True, prior=0.2, evidence=asked.get("evidence"))
    np.testing.assert_allclose(found["probability"], wanted["probability"], rtol=1e-5)
    assert found.drop(columns="probability").equals(model.recommend(k=6, **asked))


def test_scores_that_are_no_numbers_are_refused_in_a_sentence() -> None:
    view = random_view(30, 90)

    class Broken(Noise):
        def score_pairs(self, heads: Tensor, tails: Tensor) -> Tensor:
            return super().score_pairs(heads, tails).masked_fill(tails == 3, torch.nan)

    for plan in (PLANS["the first scorer"], PLANS["both"]):
        answers = Answers(30, lambda: Broken(30), Sight.of(view), plan)
        with pytest.raises(DataError, match=r"^[0-9]+ of [0-9,]+ scores of the candidates are not numbers.*\.$"):
            gathered(answers.best(torch.arange(30), 29))


@pytest.mark.parametrize(
    ("heads", "k", "told"), [([0], 0, "at least 1"), ([0], 30, "only 29 other nodes"), ([30], 1, "nodes 0 to 29")]
)
def test_wrong_questions_are_refused_at_the_call(heads: list[int], k: int, told: str) -> None:
    with pytest.raises(DataError, match=told):
        answers_of(PLANS["a source"], random_view(30, 90)).best(torch.tensor(heads), k)


def tensors() -> int:
    gc.collect()
    return sum(isinstance(each, torch.Tensor) for each in gc.get_objects())


@pytest.mark.slow
def test_a_thousand_answered_heads_leave_nothing_behind(model: LinkPredictor) -> None:
    answers, known = model.answering.asked(), model.task.known
    heads = torch.arange(60).repeat(17)[:1000]

    def ask() -> None:
        for _ in answers.best(heads, 5, known):
            pass
        for _ in answers.best(heads, 5, known):
            break  # who stops in between

    ask()
    before = tensors()
    ask()
    ask()
    assert tensors() == before
