"""Every source of candidates: the shared case, with its definition in dense matrices."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sights import NODES, SIGHTS, Dense, around_of, features_of, newest_of, out_of, shares, sight_of, unit_rows
from source_case import Source, SourceCase

from headtail.serving import described, sources
from headtail.serving.candidates import SOURCES
from headtail.serving.sight import Sight
from random_graphs import random_view


def adamic_adar(s: Sight) -> Dense:
    around = around_of(out_of(s))
    return around @ np.diag(1 / np.log(np.maximum(around.sum(axis=0), 2))) @ around


def alike(s: Sight) -> Dense:
    rows = unit_rows(features_of(s))
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0)
    return np.square(np.maximum(cosines, 0)) @ out_of(s)


def factors(s: Sight) -> Dense:
    out, n = out_of(s), s.num_nodes
    scaled = shares(out, 1, 0.5) * shares(out, 0, 0.5)
    basis = np.linalg.svd(scaled)[2][: max(1, n // 4)].T
    into = np.sqrt(np.maximum(out.sum(axis=0), 1))
    said = out @ np.diag(1 / into) @ basis @ basis.T @ np.diag(into) * (out.sum(axis=0) > 0)
    return np.where(said > 1e-6, said, 0)


DEFINITIONS: dict[str, Callable[[Sight], Dense]] = {
    "paths": lambda s: out_of(s) @ shares(out_of(s), 0).T @ out_of(s),
    "walks": lambda s: out_of(s) @ shares(out_of(s), 0).T @ (shares(out_of(s), 1) * shares(out_of(s), 0, 0.5)),
    "recent": lambda s: out_of(s) @ shares(out_of(s), 0).T @ newest_of(s),
    "common": adamic_adar,
    "allocation": lambda s: shares(around_of(out_of(s)), 0) @ around_of(out_of(s)),
    "new neighbours": lambda s: shares(around_of(out_of(s)), 0) @ around_of(newest_of(s)),
    "onward": lambda s: out_of(s) @ out_of(s),
    "siblings": lambda s: out_of(s).T @ shares(out_of(s), 1),
    "back": lambda s: out_of(s).T,
    "alike": alike,
    "factors": factors,
    "popular": lambda s: np.tile(out_of(s).sum(axis=0), (s.num_nodes, 1)),
}


# Those that multiply dense tables: of a block of heads the last digit differs from that of one head.
MULTIPLY = ["alike", "factors"]


@pytest.mark.parametrize("name", [name for name in SOURCES if name not in MULTIPLY])
class TestSources(SourceCase):
    @pytest.fixture
    def source(self, name: str) -> Source:
        return SOURCES[name]

    def wanted(self, source: Source, sight: Sight) -> Dense | None:
        return DEFINITIONS[source.name](sight)


@pytest.mark.parametrize("name", MULTIPLY)
class TestDenseSources(SourceCase):
    tolerance, beside = 1e-4, 1e-5

    @pytest.fixture
    def source(self, name: str) -> Source:
        return SOURCES[name]

    def wanted(self, source: Source, sight: Sight) -> Dense | None:
        # Of one undirected link both directions are as strong, and one is kept.
        one_of_two = source.name == "factors" and not sight.directed and sight.view.links.shape[1] == 1
        return None if one_of_two else DEFINITIONS[source.name](sight)


def test_every_source_has_its_name_and_a_definition() -> None:
    assert {name: SOURCES[name].name for name in SOURCES} == {name: name for name in SOURCES}
    assert set(DEFINITIONS) == set(SOURCES)


DATES, WAYS, FEATURES = {"recent", "new neighbours"}, {"onward", "siblings", "back"}, {"alike"}


@pytest.mark.parametrize(
    ("sight", "missing"),
    [
        ("directed", DATES | FEATURES),
        ("undirected", DATES | FEATURES | WAYS),
        ("dated", FEATURES),
        ("dated and undirected", FEATURES | WAYS),
        ("described", DATES),
        ("all there is", set()),
        ("one link", set()),  # of one date, so all are the newest
        ("no links", DATES | FEATURES),
    ],
)
def test_a_source_says_why_it_is_missing(sight: str, missing: set[str]) -> None:
    reasons = {name: SOURCES[name].unavailable(SIGHTS[sight]()) for name in SOURCES}
    assert {name for name, reason in reasons.items() if reason} == missing
    words = dict.fromkeys(DATES, "dated") | dict.fromkeys(WAYS, "direction") | dict.fromkeys(FEATURES, "features")
    assert all(words[name] in str(reasons[name]) for name in missing)


@pytest.mark.parametrize("name", ["common", "allocation"])
def test_who_has_nearly_all_as_neighbours_tells_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MOST_NEIGHBOURS", 10)
    sight = Sight.of(random_view(NODES, 150, False))
    around = out_of(sight)
    degree = around.sum(axis=0)
    assert 0 < (degree > 10).sum() < NODES
    weight = 1 / np.maximum(degree, 1) if name == "allocation" else 1 / np.log(np.maximum(degree, 2))
    wanted = around @ np.diag(np.where(degree <= 10, weight, 0)) @ around
    np.testing.assert_allclose(SOURCES[name](sight).scores(np.arange(NODES)).toarray(), wanted, rtol=1e-5)


def test_so_many_popular_ones_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "POPULAR", 3)
    sight = sight_of(True)
    found = SOURCES["popular"](sight).propose(torch.tensor([29]), 10)[0].tolist()
    degree = out_of(sight).sum(axis=0)
    assert found == [*sorted(range(NODES), key=lambda node: (-degree[node], node))[:3], *[-1] * 7]


def test_so_many_alike_ones_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "ALIKE", 2)
    sight = sight_of(True, described=True, seed=8)
    rows = unit_rows(features_of(sight))
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0)
    head = 20
    near = np.argsort(-cosines[head])[:2]
    wanted = np.square(np.maximum(cosines[head, near], 0)) @ out_of(sight)[near]
    np.testing.assert_allclose(SOURCES["alike"](sight).scores(np.array([head])).toarray()[0], wanted, atol=1e-5)
