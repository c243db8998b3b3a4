"""Answers see every link, and what judges sees none that it judges by."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from golden_runs import OLD_RUN
from headtail import LinkPredictor
from headtail.config import make_config
from headtail.contract import Method, Scorer
from headtail.datasets.raw import RawGraph
from headtail.errors import ConfigError, DataError, RunError
from headtail.evaluation.all_nodes import evaluate_lists
from headtail.evaluation.calibration import calibrate
from headtail.evaluation.evaluator import evaluate
from headtail.evaluation.parts import Validation, evaluate_part
from headtail.evaluation.scoring import held_out_scores
from headtail.experiments.data import DataSource
from headtail.experiments.one_run import TaskCache, run_once
from headtail.experiments.variants import variant_named
from headtail.files import read_tensors, write_tensors
from headtail.graph.graph import Graph, build_graph
from headtail.graph.kept import Kept
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView, ServingView
from headtail.methods import make_method, summaries
from headtail.run_files import GRAPH_FILE, TABLES_FILE
from headtail.serving.answering import Answering
from headtail.serving.answers import Answers, best_tails
from headtail.training.observer import Observer
from tiny_runs import SMALL, predictor, small_graph, timeless, trained

EVIDENCE = "degrees,common,paths,similarity,ages"


@pytest.fixture(scope="module")
def model() -> LinkPredictor:
    return trained(small_graph(dated=True), epochs=2, evidence=EVIDENCE)


# ---- evaluation never sees it ----


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[GraphView]:
    """Every view that any method is asked to score from."""
    views: list[GraphView] = []
    plain = Method.scorer

    def recording(method: Method, view: GraphView, kept: Kept | None = None) -> Scorer:
        views.append(view)
        return plain(method, view, kept)

    monkeypatch.setattr(Method, "scorer", recording)
    return views


def hold_none_of(views: list[GraphView], task: LinkTask, *parts: str) -> bool:
    """Whether no view shows a link of those parts."""
    links = torch.cat([getattr(task.split, part).positives for part in parts], dim=1)
    shown = [bool(view.out_rows.contains(*links).any()) for view in views]
    return bool(views) and not any(shown) and not any(isinstance(view, ServingView) for view in views)


@pytest.mark.parametrize("test_graph", ["train", "train+valid"])
@pytest.mark.parametrize("method", ["aml", "mf", "ra"])
def test_nothing_that_judges_sees_the_links_it_judges_by(
    method: str, test_graph: str, seen: list[GraphView], tmp_path: Path
) -> None:
    settings = {"method": method, "test_graph": test_graph, "evidence": EVIDENCE if method == "aml" else "none"}
    model = predictor(epochs=2, evaluate_every=1, **settings)
    model.fit(small_graph(dated=True), observer=Observer())
    assert method == "ra" or hold_none_of(seen, model.task, "valid", "test")
    for judge in (
        partial(model.save, tmp_path / "run"),
        partial(model.evaluate, "valid"),
        model.evaluate,
        model.reliability,
        partial(model.predict, [("p00", "p01")], probability=True, evidence="training"),
    ):
        model._answering, model._calibration = Answering(model.method, model.config), None
        seen.clear()
        judge()
        if seen and isinstance(seen[-1], ServingView):  # a saved run, once it was judged, keeps what answers need
            assert (tmp_path / "run" / TABLES_FILE).is_file()
            seen.pop()
        assert hold_none_of(seen, model.task, "test")
    seen.clear()
    model.recommend(["p00"])
    assert {type(view) for view in seen} == {ServingView}


def test_a_comparison_sees_no_test_link(seen: list[GraphView]) -> None:
    graph, config = small_graph(dated=True), predictor(epochs=1).config
    cache = TaskCache()
    run_once(DataSource("a test", "", lambda: graph), graph, variant_named("aml"), config, cache, Observer())
    assert hold_none_of(seen, cache.task(graph, config), "valid", "test")


def judges(task: LinkTask) -> list[Callable[[Scorer], object]]:
    """Everything that says how good a scorer is."""
    test = task.split.test
    assert test.negatives is not None
    return [
        lambda scorer: evaluate(scorer, test.positives, test.negatives, task.metric),
        lambda scorer: evaluate_part(scorer, task, "test"),
        lambda scorer: evaluate_part(scorer, task, "valid"),
        lambda scorer: held_out_scores(scorer, test, task.metric),
        lambda scorer: calibrate(scorer, task),
        lambda scorer: evaluate_lists(task, "test", 5, partial(best_tails, Answers.exactly(scorer))),
    ]


@pytest.mark.parametrize("name", summaries())
def test_no_method_can_be_judged_by_links_that_it_sees(name: str) -> None:
    config = make_config(settings=SMALL | {"method": name, "eval_negatives": 2})
    task = make_task(small_graph(dated=True), config)
    method = make_method(task, config)
    every = method.scorer(task.serving_view)
    for scorer in (every, every.remembering({}), method.scorer(task.serving_view.to("cpu"))):
        for judge in judges(task):
            with pytest.raises(DataError, match="looks at the held-out links, so what it says of them proves nothing"):
                judge(scorer)
    with pytest.raises(DataError, match="looks at the held-out links"):
        Validation(task)(every)
    fair = method.scorer(task.test_view)
    assert not fair.sees_held_out
    assert not fair.remembering({}).sees_held_out
    judges(task)[1](fair)


# ---- answers do ----


def test_answers_are_given_from_every_link(model: LinkPredictor) -> None:
    split, graph = model.task.split, model.task.graph
    assert graph.times is not None
    order = torch.randperm(graph.links.shape[1], generator=torch.Generator().manual_seed(0))
    whole = model.method.scorer(GraphView(60, True, graph.links[:, order], graph.times[order]))
    wanted = whole.score_rows(torch.arange(60), 0, 60)
    pairs = [(f"p{h:02}", f"p{t:02}") for h, t in split.test.positives.T.tolist()]
    found = model.predict(pairs)["score"].to_numpy()
    np.testing.assert_allclose(found, wanted[split.test.positives[0], split.test.positives[1]].numpy(), atol=1e-5)
    table = model.recommend(k=4)
    known = {(h, t) for h, t in graph.links.T.tolist()}
    for head, rows in table.groupby("head"):
        scores = wanted[int(head[1:])].clone()
        scores[[t for t in range(60) if t == int(head[1:]) or (int(head[1:]), t) in known]] = -torch.inf
        np.testing.assert_allclose(rows["score"].to_numpy(), scores.topk(4).values.numpy(), atol=1e-5)


def test_what_is_asked_decides_and_changes_no_figure(model: LinkPredictor) -> None:
    before, reliability = timeless(model.evaluate()), model.reliability()
    every, training = model.recommend("p00"), model.recommend("p00", evidence="training")
    assert model.recommend("p00", evidence="all").equals(every)
    assert not every["score"].equals(training["score"])
    assert timeless(model.evaluate()) == before
    assert model.reliability() == reliability
    assert {type(view) for view in model.answering.views} == {GraphView, ServingView}
    assert len(model.answering.views) == 2
    pair = [("p00", "p01")]
    same = model.predict(pair, probability=True, evidence="training")["probability"]
    assert same.tolist() == model._calibrated().probabilities(
        model._scorer("training").score_pairs(*torch.tensor([[0], [1]]))
    )
    with pytest.raises(ConfigError, match="unknown evidence 'al'; did you mean 'all'"):
        model.recommend("p00", evidence="al")  # type: ignore[arg-type]


def test_under_train_and_valid_training_is_what_the_test_sees() -> None:
    model = trained(epochs=1, test_graph="train+valid")
    wanted = model.method.scorer(model.task.test_view).score_rows(torch.tensor([3]), 0, 60)[0]
    for row in model.recommend("p03", k=5, evidence="training").itertuples():
        assert row.score == pytest.approx(float(wanted[int(row.tail[1:])]), abs=1e-6)


@pytest.mark.parametrize("dated", [True, False])
def test_a_stored_run_answers_the_same(dated: bool, tmp_path: Path) -> None:
    model = trained(small_graph(dated=dated), epochs=1, evidence=EVIDENCE)
    model.save(tmp_path / "run")
    again = LinkPredictor.load(tmp_path / "run", device="cpu")
    assert again.recommend(k=3).equals(model.recommend(k=3))
    assert again.predict([("p00", "p01")], probability=True).equals(model.predict([("p00", "p01")], probability=True))


def test_a_run_of_the_first_version_answers_from_every_link_too(tmp_path: Path) -> None:
    model = LinkPredictor.load(OLD_RUN, device="cpu")
    assert not model.recommend("p00")["score"].equals(model.recommend("p00", evidence="training")["score"])
    shutil.copytree(OLD_RUN, tmp_path / "run")
    tensors, facts = read_tensors(tmp_path / "run" / GRAPH_FILE)
    view = model.task.serving_view
    assert view.times is not None  # of the held-out links there are no times in such a run
    newest = int(tensors["train_times"].max())
    assert sorted(view.times[view.times > newest].unique().tolist()) == [newest + 1, newest + 2]
    write_tensors(tmp_path / "run" / GRAPH_FILE, tensors | {"valid_times": tensors["train_times"]}, facts)
    with pytest.raises(RunError, match="valid_times are"):
        LinkPredictor.load(tmp_path / "run", device="cpu")


def test_a_heuristic_asked_from_all_links_counts_them() -> None:
    links = as_array([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)])
    graph = build_graph(RawGraph("a chain", 7, links, False, times=np.arange(6)))
    model = LinkPredictor(method="cn", eval_negatives=1, valid_share=0.17, test_share=0.17).fit(graph)
    assert model.predict([(3, 5), (4, 6)])["score"].tolist() == [1, 1]
    assert model.predict([(3, 5), (4, 6)], evidence="training")["score"].tolist() == [0, 0]


def as_array(pairs: list[tuple[int, int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(pairs, dtype=np.int64).T


# ---- what it is worth ----

USERS, ITEMS, NEW, CLUSTERS = 240, 90, 20, 6


def shop() -> tuple[Graph, "np.ndarray[Any, np.dtype[np.int64]]"]:
    """Users buy within their cluster, four times in five; the newest links are all there is of the newest users.

    Returns:
        The graph and the cluster of every node: users, new users, items.
    """
    random = np.random.default_rng(0)
    of_user, of_item = random.integers(CLUSTERS, size=USERS + NEW), np.arange(ITEMS) % CLUSTERS

    def bought(user: int, own: bool) -> int:
        return int(random.choice(np.flatnonzero(of_item == of_user[user]) if own else ITEMS))

    old = {(user, bought(user, random.random() < 0.8)) for user in range(USERS) for _ in range(7)}
    links = [sorted(old)[place] for place in random.permutation(len(old))]
    links += sorted({(user, bought(user, True)) for user in range(USERS, USERS + NEW) for _ in range(8)})
    ends = as_array([(user, USERS + NEW + item) for user, item in links])
    names = pd.Index([f"u{user}" for user in range(USERS + NEW)] + [f"i{item}" for item in range(ITEMS)])
    raw = RawGraph("a shop", len(names), ends, False, times=np.arange(ends.shape[1]), names=names)
    return build_graph(raw), np.concatenate([of_user, of_item])


def in_their_cluster(model: LinkPredictor, cluster: "np.ndarray[Any, np.dtype[np.int64]]", **asked: Any) -> float:
    """Returns the share of the answers for new users that are items of their own cluster."""
    answers = model.recommend([f"u{user}" for user in range(USERS, USERS + NEW)], k=3, **asked)
    heads, tails = (model.task.graph.names.find(answers[end].tolist()).numpy() for end in ("head", "tail"))
    return float(((tails >= USERS + NEW) & (cluster[heads] == cluster[tails])).mean())


@pytest.mark.parametrize("method", ["item2hop", pytest.param("aml", marks=pytest.mark.slow)])
def test_new_users_are_answered_by_what_they_bought_of_late(method: str) -> None:
    graph, cluster = shop()
    tiny = {"hidden": 16, "structure": 8, "epochs": 8, "eval_negatives": 20, "device": "cpu"}
    model = LinkPredictor(method=method, **tiny).fit(graph, observer=Observer())
    new = model.task.split.train >= USERS
    assert not bool((new & (model.task.split.train < USERS + NEW)).any())  # all of them is held out
    assert in_their_cluster(model, cluster) > 0.6
    assert in_their_cluster(model, cluster, evidence="training") < 0.3
