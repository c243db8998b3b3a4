"""Evidence in training: it solves what features cannot, and neither noise nor the link itself counts as evidence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from headtail import LinkPredictor
from headtail.baselines import mf
from headtail.config import make_config
from headtail.datasets.raw import RawGraph
from headtail.errors import ConfigError
from headtail.graph.graph import build_graph
from headtail.graph.pairs import Pairs
from headtail.graph.task import make_task
from headtail.training.observer import Observer
from headtail.training.surroundings import evidence_kinds
from headtail.training.trainer import GnnMethod
from random_graphs import as_pairs
from tiny_runs import SMALL, small_graph

NEGATIVES = 50
# The mean of 1/rank where every rank among the negatives is as likely.
CHANCE = sum(1 / rank for rank in range(1, NEGATIVES + 2)) / (NEGATIVES + 1)
TINY: dict[str, Any] = {"epochs": 6, "hidden": 16, "structure": 0, "eval_negatives": NEGATIVES, "device": "cpu"}
DIRECTED = pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])


def cliques(directed: bool, groups: int = 45, size: int = 6) -> RawGraph:
    """Small cliques with one random number per node: members share neighbours, and nothing else."""
    random = np.random.default_rng(0)
    node = random.permutation(groups * size).reshape(groups, size)
    links = np.array([(row[a], row[b]) for row in node for a in range(size) for b in range(a)]).T
    links = links[:, random.permutation(links.shape[1])]
    if directed:  # each link one way only, so that no reverse link tells
        links = np.where(random.random(links.shape[1]) < 0.5, links, links[::-1])
    hints = random.standard_normal((groups * size, 1)).astype(np.float32)
    return RawGraph("cliques", groups * size, links.astype(np.int64), directed, features=hints)


def no_reason(directed: bool, nodes: int = 300, count: int = 2000, dated: bool = False) -> RawGraph:
    """Links drawn evenly from all pairs: only a link itself could tell that it is there."""
    random = np.random.default_rng(1)
    heads, tails = np.divmod(random.permutation(nodes * nodes), nodes)
    fit = heads != tails if directed else heads < tails
    links = np.stack([heads[fit], tails[fit]])[:, :count].astype(np.int64)
    hints = random.standard_normal((nodes, 4)).astype(np.float32)
    times = random.integers(0, 60, count) if dated else None
    return RawGraph("no reason", nodes, links, directed, times=times, features=hints)


def strong(raw: RawGraph, **settings: Any) -> LinkPredictor:
    return LinkPredictor("strong", **(TINY | settings)).fit(build_graph(raw), observer=Observer())


# ---- what is learned ----


@pytest.mark.slow
@DIRECTED
def test_common_neighbours_solve_what_features_cannot(directed: bool) -> None:
    raw = cliques(directed)
    assert strong(raw).evaluate()["mrr"] > 0.95
    assert strong(raw, evidence="none").evaluate()["mrr"] < 0.4


@pytest.mark.slow
@pytest.mark.parametrize(("directed", "dated"), [(True, False), (False, True)])
def test_nothing_is_found_where_only_the_link_itself_would_tell(directed: bool, dated: bool) -> None:
    model = strong(no_reason(directed, dated=dated))
    # Of 200 or 100 held-out links the mean strays about a tenth of its value for no reason.
    assert model.evaluate()["mrr"] < 1.5 * CHANCE
    assert model.evaluate("valid")["mrr"] < 1.7 * CHANCE  # the best of several epochs


@pytest.mark.slow
@DIRECTED
def test_nothing_is_found_in_structure_where_there_is_no_reason(directed: bool) -> None:
    """Structural features are made of the links: like features of the data, they may not tell held-out ones."""
    # Many are held out: of a hundred links alone the mean strays by a third of its value for no reason.
    shares = {"valid_share": 0.2, "test_share": 0.2}
    model = strong(replace(no_reason(directed), features=None), structure="auto", **shares)
    assert model.evaluate()["mrr"] < 1.5 * CHANCE
    assert model.evaluate("valid")["mrr"] < 1.7 * CHANCE


# ---- what is seen in training ----


def training_evidence(directed: bool, **settings: Any) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns the evidence of all pairs of an epoch, and which of them are positives."""
    settings = TINY | {"negatives": "uniform", "negatives_per_positive": 1} | settings
    config = make_config("strong", settings=settings)
    raw = no_reason(directed, dated=settings.get("split") == "time")
    method = GnnMethod.create(make_task(build_graph(raw), config), config)
    values, positive = [], []
    for batch in method.batches().epoch(torch.Generator().manual_seed(0)):
        assert batch.evidence is not None
        values.append(batch.evidence)
        positive.append(torch.arange(len(batch.evidence)) < batch.positive.shape[1])
    return torch.cat(values).numpy(), torch.cat(positive).numpy()


def telling(values: NDArray[np.float32], positive: NDArray[np.bool_]) -> float:
    """Returns how far from a coin's the best single column is at telling positives, 0 to ½."""
    return max(abs(roc_auc_score(positive, column) - 0.5) for column in values.T)


@DIRECTED
@pytest.mark.parametrize(
    "settings",
    [{}, {"reverse": True}, {"folds": 1}, {"split": "time", "supervision": "all"}],
    ids=["folds", "folds aml-r", "no folds", "dated folds"],
)
def test_positives_do_not_tell_themselves(directed: bool, settings: dict[str, Any]) -> None:
    values, positive = training_evidence(directed, **settings)
    # The standard error of independent pairs; these share nodes, and the worst of 27 columns is looked at.
    error = 1 / np.sqrt(6 * positive.sum())
    assert telling(values, positive) < 6 * error


@DIRECTED
def test_such_a_test_would_see_a_leak(directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairs, "hides", property(lambda pairs: torch.zeros(len(pairs), dtype=torch.bool)))
    values, positive = training_evidence(directed)
    assert telling(values, positive) > 0.1


def dated_graph() -> RawGraph:
    return no_reason(True, 60, 500, dated=True)


def test_newest_links_are_learned_from_given_the_older() -> None:
    config = make_config("strong", settings=TINY)
    method = GnnMethod.create(make_task(build_graph(dated_graph()), config), config)
    seen = method.surroundings(method.supervision.view)
    links = set(as_pairs(method.supervision.links))
    assert 0 < len(links) < 0.2 * method.task.train_view.links.shape[1]
    learned = []
    for batch in method.batches().epoch(torch.Generator().manual_seed(0)):
        assert batch.graph is seen.graph
        learned += as_pairs(batch.nodes[batch.positive])
    assert sorted(learned) == sorted(links)
    assert not seen.graph.adjacency.contains(*method.supervision.links).all()
    assert method.notes == (method.supervision.note,)


def test_validation_sees_all_training_links() -> None:
    config = make_config("strong", settings=TINY)
    method = GnnMethod.create(make_task(build_graph(dated_graph()), config), config)
    view = method.task.train_view
    assert method.surroundings(view).graph.adjacency.contains(*view.links).all()
    assert method.surroundings(view) is method.surroundings(view)
    assert method.surroundings(view) is not method.surroundings(method.supervision.view)


def test_evidence_is_standardised_before_the_first_step() -> None:
    config = make_config("strong", settings=TINY)
    method = GnnMethod.create(make_task(build_graph(dated_graph()), config), config)
    batches = list(method.batches().epoch(torch.Generator().manual_seed(0)))
    encoder = method.model.scorer.evidence
    assert encoder is not None
    evidence = torch.cat([batch.evidence for batch in batches if batch.evidence is not None])
    x = (evidence - encoder.mean) * encoder.scale
    assert float(x.mean(dim=0).abs().max()) < 0.5
    assert 0.5 < float(x.std(dim=0)[encoder.scale > 0].median()) < 1.5


# ---- names, columns, folders ----


@pytest.mark.parametrize(("dated", "columns"), [(False, 21), (True, 27)])
def test_a_graph_without_dates_has_no_columns_of_ages(dated: bool, columns: int) -> None:
    config = make_config("strong", settings=TINY)
    method = GnnMethod.create(make_task(build_graph(no_reason(True, 60, 500, dated)), config), config)
    assert method.model.shape.evidence_columns == columns


@DIRECTED
@pytest.mark.parametrize("structure_from", ["svd", "mf"])
def test_structure_is_no_reason_to_look_for_similarity(
    directed: bool, structure_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How alike structural features are tells of the links that they were made of, the hidden one among them."""
    monkeypatch.setattr(mf, "FEATURE_EPOCHS", 1)
    settings = TINY | {"structure": 8, "structure_from": structure_from}
    config = make_config("strong", settings=settings)
    described = no_reason(directed, 60, 500)
    columns = []
    for raw, kinds in (
        (described, ("degrees", "common", "paths", "similarity")),
        (replace(described, features=None), ("degrees", "common", "paths")),
    ):
        task = make_task(build_graph(raw), config)
        method = GnnMethod.create(task, config)
        assert evidence_kinds(task, config.model.evidence) == kinds
        assert method.summary.endswith(f", evidence {', '.join(kinds)}")
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        assert batch.evidence is not None
        columns.append(batch.evidence.shape[1])
        assert columns[-1] == method.model.shape.evidence_columns
    assert columns[0] > columns[1]


def test_without_features_similarity_alone_is_no_evidence() -> None:
    config = make_config("strong", settings=TINY | {"evidence": "similarity", "structure": 8})
    task = make_task(build_graph(replace(no_reason(True, 60, 500), features=None)), config)
    method = GnnMethod.create(task, config)
    assert method.model.scorer.evidence is None
    assert "evidence" not in method.summary
    batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
    assert batch.evidence is None


def test_evidence_needs_a_hidden_layer_and_right_names() -> None:
    with pytest.raises(ConfigError, match="set scorer_layers to 2 or more"):
        strong(cliques(False), scorer_layers=1)
    with pytest.raises(ConfigError, match="did you mean 'common'"):
        strong(cliques(False), evidence="comon")


SAVED = {
    "directed": cliques(True),
    "undirected": cliques(False),
    "dated": dated_graph(),
    "featureless": replace(cliques(True), features=None),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "reverse"), [("directed", True), ("undirected", False), ("dated", False), ("featureless", False)]
)
def test_a_strong_run_is_the_same_from_disk(name: str, reverse: bool, tmp_path: Path) -> None:
    model = strong(SAVED[name], epochs=2, reverse=reverse, test_graph="train+valid")
    model.save(tmp_path / "run")
    back = LinkPredictor.load(tmp_path / "run", device="cpu")
    heads = torch.arange(0, 60, 7)
    one, other = model._scorer("training"), back._scorer("training")
    assert torch.equal(one.score_rows(heads, 0, 60), other.score_rows(heads, 0, 60))
    ends = model.task.split.test.positives
    assert torch.equal(one.score_pairs(*ends), other.score_pairs(*ends))
    assert back.evaluate()["mrr"] == model.evaluate()["mrr"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "directed"), [("aml", False), ("symmetric", True), ("smlp", False)])
def test_every_model_reads_evidence(method: str, directed: bool) -> None:
    config = SMALL | {"method": method, "epochs": 2}
    model = LinkPredictor("strong", **config).fit(small_graph(directed), observer=Observer())
    scorer = model._scorer("training")
    nodes = torch.arange(60)
    heads, tails = torch.cartesian_prod(nodes[:9], nodes).T
    rows = scorer.score_rows(nodes[:9], 0, 60).flatten()
    torch.testing.assert_close(rows, scorer.score_pairs(heads, tails), rtol=1e-3, atol=1e-4)
