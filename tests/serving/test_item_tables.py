"""Tables of items against dense products: what is cut, what is left out, and that nothing else is."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sights import Dense, out_of, shares, sight_of

from headtail.graph.matrix import Matrix
from headtail.serving import item_tables
from headtail.serving.item_tables import item_table, largest_of_rows
from headtail.serving.sight import Sight
from headtail.serving.sources import Paths
from random_graphs import random_view

VALUES = st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=5)


@given(values=VALUES, most=st.integers(1, 7))
def test_a_row_keeps_its_largest_and_what_equals_the_last_of_them(values: list[list[int]], most: int) -> None:
    rows: Matrix = sparse.csr_array(np.array(values, dtype=np.float32))
    found = largest_of_rows(rows, most)
    for row, kept in zip(values, found.toarray().tolist(), strict=True):
        least = sorted((value for value in row if value), reverse=True)[:most]
        assert kept == [value if least and value >= least[-1] else 0 for value in row]
    assert found.nnz == np.count_nonzero(found.toarray())


@pytest.mark.parametrize("block_terms", [1, 7, 60, 2**24])
@pytest.mark.parametrize("directed", [True, False])
def test_blocks_make_one_table(block_terms: int, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_tables, "BLOCK_TERMS", block_terms)
    sight = sight_of(directed)
    out = out_of(sight)
    np.testing.assert_allclose(item_table(sight, sight.out).toarray(), shares(out, 0).T @ out, rtol=1e-5)


def cut(table: Dense, most: int) -> Dense:
    least = np.sort(table, axis=1)[:, -most, None]
    return np.where(table >= np.maximum(least, 1e-12), table, 0)


@pytest.mark.parametrize(("of_row", "entries"), [(4, 2**26), (400, 4 * 28), (1, 2**26), (400, 1)])
def test_rows_keep_fewer_where_all_would_be_too_many(
    of_row: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_tables, "MOST_OF_ROW", of_row)
    monkeypatch.setattr(item_tables, "MOST_ENTRIES", entries)
    sight = sight_of(True)
    out = out_of(sight)
    sought = int((out.sum(axis=0) > 0).sum())
    found = item_table(sight, sight.out).toarray()
    whole = (shares(out, 0).T @ out).astype(np.float32)
    np.testing.assert_allclose(found, cut(np.round(whole, 6), max(1, min(of_row, entries // sought))), atol=1e-5)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(("per_link", "terms"), [(3, 2**31), (200, 150), (200, 0), (1, 2**31)])
def test_only_heads_of_most_links_are_left_out(
    directed: bool, per_link: int, terms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_tables, "TERMS_PER_LINK", per_link)
    monkeypatch.setattr(item_tables, "MOST_TERMS", terms)
    sight = Sight.of(random_view(30, 90, directed))
    out = out_of(sight)
    degree = out.sum(axis=1)
    kept, spent = np.zeros(30), 0.0
    for head in sorted(range(30), key=lambda node: (degree[node], node)):
        spent += degree[head] ** 2  # a head pairs each of its tails with each
        kept[head] = spent <= min(per_link * out.sum(), terms)
    assert kept[degree > 0].min() == 0
    wanted = (shares(out, 0) * kept[:, None]).T @ out
    np.testing.assert_allclose(item_table(sight, sight.out).toarray(), wanted, atol=1e-6)
    np.testing.assert_allclose(Paths(sight).scores(np.arange(30)).toarray(), out @ wanted, atol=1e-5)
    for links, before in ((sight.out, out), (sight.into, out.T), (sight.around, np.maximum(out, out.T))):
        assert np.array_equal(links.toarray(), before)  # what is left out there is still a link
