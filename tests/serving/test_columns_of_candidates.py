"""What the second stage reads of a candidate, column by column, from the definition on small graphs."""

import numpy as np
import pytest
import torch
from sights import SIGHTS, Dense, around_of, features_of, newest_of, out_of, shares, unit_rows

from headtail.serving import columns as module
from headtail.serving.candidates import SOURCES, Candidates, Lists
from headtail.serving.columns import FEATURE_COLUMNS, columns_of, places
from headtail.serving.second_stage import sources_of
from headtail.serving.sight import Sight

KINDS = [kind for kind in SIGHTS if kind not in ("described", "dated and undirected")]


def lists_of(sight: Sight) -> Lists:
    """Returns candidates of every node, by all sources, few of each so that nodes have different numbers of them."""
    names = [name for name, missing in sources_of(sight).items() if missing is None]
    candidates = Candidates([SOURCES[name](sight) for name in names], dict.fromkeys(names, 3))
    return candidates.lists(torch.arange(sight.num_nodes), sight.view.out_rows)


def steps(counts: Dense) -> Dense:
    return np.round(np.log(1 + counts) / 0.7)


def by_definition(sight: Sight) -> dict[str, Dense]:
    """Returns [N, N] of every pair, by column, but for what depends on the other candidates."""
    out, n = out_of(sight), sight.num_nodes
    every = np.ones((n, n))
    degrees = {"out": out.sum(axis=1), "in": out.sum(axis=0)}
    if sight.dated:
        degrees |= {"new out": newest_of(sight).sum(axis=1), "new in": newest_of(sight).sum(axis=0)}
    found = {f"{way} of head": steps(degree)[:, None] * every for way, degree in degrees.items()}
    paths = out @ shares(out, 0).T @ out
    found["paths"] = paths
    found["paths per head"] = paths / np.maximum(degrees["in"], 1)[None, :]
    found["paths per tail"] = paths / np.maximum(degrees["out"], 1)[:, None]
    found["allocation"] = shares(around_of(out), 0) @ around_of(out)
    if sight.described is not None:
        rows = unit_rows(features_of(sight))
        of_tails, of_heads = shares(out, 1) @ rows, shares(out, 0).T @ rows
        found |= {
            "like head": rows @ rows.T,
            "like tails": of_tails @ rows.T,
            "like its heads": rows @ of_heads.T,
            "both": of_tails @ of_heads.T,
            "like its tails": of_tails @ of_tails.T,
        }
        found["like a tail"] = np.array(
            [
                [max([0.0, *(rows[tail] @ rows[other] for other in np.flatnonzero(row))]) for tail in range(n)]
                for row in out
            ]
        )
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_what_they_are_called(kind: str) -> None:
    sight = SIGHTS[kind]()
    lists = lists_of(sight)
    there, found, wanted = lists.tails >= 0, columns_of(lists, sight), by_definition(sight)
    heads, tails = lists.heads[:, None].expand_as(there)[there].numpy(), lists.tails[there].numpy()
    for name, values in wanted.items():
        got = found[name][there].numpy()
        np.testing.assert_allclose(got, values[heads, tails], rtol=1e-4, atol=1e-5, err_msg=name)
    assert torch.equal(found["candidates"], (there.sum(1, keepdim=True).float().log1p() / 0.7).round().expand_as(there))
    said = set(lists.values)
    others = {"candidates"} | {f"place: {name}" for name in said}
    assert set(found) == set(wanted) | said | others
    assert all(bool(torch.isfinite(column[there]).all()) for column in found.values())
    assert all(column.shape == there.shape and column.dtype == torch.float32 for column in found.values())


@pytest.mark.parametrize("kind", KINDS)
def test_places_are_those_among_the_candidates(kind: str) -> None:
    sight = SIGHTS[kind]()
    lists = lists_of(sight)
    found = columns_of(lists, sight)
    for name, values in lists.values.items():
        for row, (tails, said) in enumerate(zip(lists.tails.tolist(), values.tolist(), strict=True)):
            real = [place for place, tail in enumerate(tails) if tail >= 0]
            order = sorted(real, key=lambda place: (-said[place], tails[place]))
            wanted = {place: np.log1p(rank) for rank, place in enumerate(order)}
            got = found[f"place: {name}"][row].tolist()
            assert [got[place] for place in real] == pytest.approx([wanted[place] for place in real])


def test_places_of_equals_are_by_their_order() -> None:
    found = places(torch.tensor([[1.0, 3.0, 3.0, -torch.inf], [0.0, 0.0, 0.0, 0.0]])).expm1().round()
    assert found.tolist() == [[2, 0, 1, 3], [0, 1, 2, 3]]


def test_columns_of_features_are_known_by_name() -> None:
    sight = SIGHTS["all there is"]()
    with_features = set(columns_of(lists_of(sight), sight))
    plain = Sight(sight.view)
    assert with_features - set(columns_of(lists_of(plain), plain)) == set(FEATURE_COLUMNS)


def test_no_more_tails_are_compared_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAILS_COMPARED", 2)
    sight = SIGHTS["described"]()
    lists = lists_of(sight)
    rows, out, there = unit_rows(features_of(sight)), out_of(sight), lists.tails >= 0
    found = columns_of(lists, sight)["like a tail"]
    for head, tails in enumerate(lists.tails.tolist()):
        others = np.flatnonzero(out[head])[:2]
        wanted = [max([0.0, *(rows[tail] @ rows[other] for other in others)]) for tail in tails if tail >= 0]
        assert found[head][there[head]].tolist() == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("kind", ["directed", "all there is", "described and undirected"])
def test_columns_of_a_head_do_not_depend_on_the_others(kind: str) -> None:
    sight = SIGHTS[kind]()
    lists = lists_of(sight)
    whole = columns_of(lists, sight)
    for head in (0, 3, 29):
        alone = Lists(
            lists.heads[head : head + 1],
            lists.tails[head : head + 1],
            {name: each[head : head + 1] for name, each in lists.values.items()},
        )
        there = alone.tails >= 0
        for name, column in columns_of(alone, sight).items():
            torch.testing.assert_close(column[there], whole[name][head : head + 1][there], msg=name)
