"""Evidence of whole views: every column by definition, no link evidence for itself, rows, blocks, memory, names."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from evidence_oracle import KINDS, VIEWS, all_pairs, columns, dated_view, features_of, hub_view, without_link
from hypothesis import given
from sklearn.metrics import roc_auc_score

from headtail.errors import ConfigError
from headtail.graph import evidence as module
from headtail.graph import pairs as pairs_module
from headtail.graph import paths as paths_module
from headtail.graph.evidence import PairEvidence, RememberedEvidence, choose_evidence, evidence_width
from headtail.graph.evidence_kinds import EVIDENCE
from headtail.graph.view import GraphView
from random_graphs import as_links, as_pairs, random_view, views

ASKED = pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])
DIRECTED = pytest.mark.parametrize("directed", [True, False])
UNDATED = KINDS[:-1]


def evidence_of(view: GraphView, kinds: Sequence[str] = KINDS) -> PairEvidence:
    return PairEvidence(kinds, view, features_of(view))


def both_directions(view: GraphView) -> torch.Tensor:
    """Returns the links; undirected ones named either way."""
    return view.links if view.directed else torch.cat([view.links, view.links.flip(0)], dim=1)


# ---- by definition ----


def test_all_kinds_are_tested() -> None:
    assert set(EVIDENCE) == set(KINDS)


@ASKED
@pytest.mark.parametrize("kind", KINDS)
def test_columns_by_definition(view: GraphView, kind: str) -> None:
    heads, tails = all_pairs(view)
    found = evidence_of(view, [kind])(heads, tails)
    pairs = zip(heads.tolist(), tails.tolist(), strict=True)
    wanted = [columns([kind], view, features_of(view), pair) for pair in pairs]
    np.testing.assert_allclose(found.numpy(), np.array(wanted), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", UNDATED)
@given(views())
def test_columns_of_any_graph_by_definition(kind: str, view: GraphView) -> None:
    heads, tails = both_directions(view)
    found = evidence_of(view, [kind])(heads, tails)
    pairs = zip(heads.tolist(), tails.tolist(), strict=True)
    wanted = [columns([kind], view, features_of(view), pair) for pair in pairs]
    np.testing.assert_allclose(found.numpy(), np.array(wanted), rtol=1e-4, atol=1e-4)


@ASKED
@pytest.mark.parametrize("kind", KINDS)
def test_widths_are_those_of_the_columns(view: GraphView, kind: str) -> None:
    heads, tails = all_pairs(view)
    found = evidence_of(view, [kind])(heads, tails)
    assert found.shape == (len(heads), evidence_width([kind], view.directed))
    assert found.dtype == torch.float32
    assert torch.isfinite(found).all()


@DIRECTED
def test_kinds_stand_side_by_side_in_the_order_asked(directed: bool) -> None:
    view = dated_view(18, 45, directed)
    heads, tails = all_pairs(view)
    kinds = ["similarity", "ages", "degrees"]
    wanted = torch.cat([evidence_of(view, [kind])(heads, tails) for kind in kinds], dim=1)
    both = evidence_of(view, kinds)
    assert torch.equal(both(heads, tails), wanted)
    assert both.width == evidence_width(kinds, directed) == wanted.shape[1]


# ---- a link is no evidence for itself ----


@ASKED
def test_evidence_of_a_link_is_that_of_the_view_without_it(view: GraphView) -> None:
    evidence = evidence_of(view, UNDATED)
    for head, tail in as_pairs(both_directions(view)):
        pair = torch.tensor([head]), torch.tensor([tail])
        bare = evidence_of(without_link(view, head, tail), UNDATED)
        torch.testing.assert_close(evidence(*pair), bare(*pair), rtol=1e-4, atol=1e-4)


@ASKED
def test_a_hidden_link_is_no_evidence_for_other_tails_of_its_head(view: GraphView) -> None:
    """What a negative with the head of a link sees is the view without that link."""
    evidence = evidence_of(view, UNDATED)
    tails = torch.arange(view.num_nodes)
    for head, tail in as_pairs(both_directions(view)):
        if view.directed and view.out_rows.contains(torch.tensor([tail]), torch.tensor([head])):
            continue  # the ends stay neighbours; the link that leads back is then left out with the hidden one
        unlinked = ~view.out_rows.contains(torch.full_like(tails, head), tails)
        others = tails[(unlinked & (tails != head)) | (tails == tail)]
        heads = torch.full_like(others, head)
        bare = evidence_of(without_link(view, head, tail), UNDATED)
        found = evidence(heads, others, hidden=torch.full_like(others, tail))
        torch.testing.assert_close(found, bare(heads, others), rtol=1e-4, atol=1e-4)


@DIRECTED
@pytest.mark.parametrize("seed", range(3))
def test_ages_of_a_link_are_those_of_the_view_without_it(directed: bool, seed: int) -> None:
    """The link moves between two lone nodes and keeps its date, so that all other links keep their ages."""
    view = dated_view(16, 40, directed, seed)
    evidence = evidence_of(view, ["ages"])
    for place, (head, tail) in enumerate(as_pairs(view.links)):
        links = view.links.clone()
        links[:, place] = torch.tensor([14, 15])
        bare = evidence_of(GraphView(16, directed, links, view.times), ["ages"])
        for pair in ((head, tail),) if directed else ((head, tail), (tail, head)):
            ends = torch.tensor(pair[:1]), torch.tensor(pair[1:])
            torch.testing.assert_close(evidence(*ends), bare(*ends), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@DIRECTED
def test_links_of_a_random_graph_look_like_other_pairs(directed: bool) -> None:
    """Links drawn evenly have nothing in common but themselves: no column may tell them from unlinked pairs."""
    areas = np.array([areas_of_links_drawn_evenly(directed, seed) for seed in range(10)])
    # Of one graph an area strays by 0.016 at most (pairs share nodes), so the mean of ten by 0.005.
    telling = np.flatnonzero(abs(areas.mean(axis=0) - 0.5) > 0.02)
    assert telling.size == 0, f"columns {telling} tell links apart"


def areas_of_links_drawn_evenly(directed: bool, seed: int, nodes: int = 300, count: int = 2000) -> list[float]:
    """Returns the area under the ROC curve of every column, telling links from as many other pairs."""
    random = np.random.default_rng(seed)
    heads, tails = np.divmod(random.permutation(nodes * nodes), nodes)
    fit = heads != tails if directed else heads < tails
    pairs = torch.from_numpy(np.stack([heads[fit], tails[fit]])[:, : 2 * count])
    view = GraphView(nodes, directed, pairs[:, :count], torch.from_numpy(random.integers(0, 50, count)))
    found = evidence_of(view)(*pairs).numpy()
    return [roc_auc_score(np.arange(2 * count) < count, column) for column in found.T]


@DIRECTED
@pytest.mark.parametrize("most", [2, 4])
def test_samples_of_long_rows_do_not_tell_links(directed: bool, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub's links to nodes of no other link: without them there is nothing in common, sampled or not."""
    monkeypatch.setattr(pairs_module, "MOST_ENTRIES", most)
    links = as_links([(leaf, 0) for leaf in range(1, 12)])
    found = evidence_of(GraphView(13, directed, links), ["common", "paths"])(*links)
    assert found.abs().max() < 1e-4


# ---- rows ----


@pytest.mark.slow
@ASKED
@pytest.mark.parametrize("one_way", [True, False])
@pytest.mark.parametrize(("limit", "most"), [(40, 256), (1, 256), (2, 3)])
def test_rows_equal_pairs(
    view: GraphView, one_way: bool, limit: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths_module, "PAIRS_PER_LINK", limit)
    monkeypatch.setattr(pairs_module, "MOST_ENTRIES", most)
    evidence = evidence_of(view)
    nodes = view.num_nodes
    order = torch.arange(nodes).flip(0)
    for first, last in ((0, nodes), (1, nodes - 1), (nodes - 1, nodes), (1, 1)):
        there, back = evidence.rows(order, first, last, one_way)
        heads, tails = torch.cartesian_prod(order, torch.arange(first, last)).T
        shape = nodes, last - first, evidence.width
        torch.testing.assert_close(there, evidence(heads, tails).view(shape))
        assert (back is None) == one_way
        if back is not None:
            torch.testing.assert_close(back, evidence(tails, heads).view(shape))


@DIRECTED
def test_rows_are_spared_the_search_for_what_is_far(directed: bool) -> None:
    chain = GraphView(40, directed, as_links([(node, node + 1) for node in range(38)]))
    evidence = evidence_of(chain, UNDATED)
    near = evidence._near(torch.tensor([0, 39]), one_way=True)
    assert 0 < int(near[0].sum()) <= 6
    assert not near[1].any()


# ---- blocks and memory ----


@DIRECTED
@pytest.mark.parametrize("block", [300, 1000])
def test_blocks_do_not_change_values(directed: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    view = hub_view(directed)
    evidence, (heads, tails) = evidence_of(view), all_pairs(view)
    whole = evidence(heads, tails)
    assert len(evidence._cuts(heads, tails)) == 1
    monkeypatch.setitem(module.BLOCK_ENTRIES, "cpu", block)
    cuts = evidence._cuts(heads, tails)
    assert len(cuts) > 10
    assert [first for first, _ in cuts] == [0, *(last for _, last in cuts[:-1])]
    assert cuts[-1][1] == len(heads)
    assert torch.equal(evidence(heads, tails), whole)


@DIRECTED
def test_no_pairs_have_no_evidence(directed: bool) -> None:
    evidence = evidence_of(dated_view(18, 45, directed))
    none = torch.empty(0, dtype=torch.int64)
    assert evidence(none, none).shape == RememberedEvidence(evidence, {})(none, none).shape == (0, evidence.width)


@DIRECTED
def test_remembered_pairs_are_those_asked_about(directed: bool) -> None:
    evidence = evidence_of(dated_view(18, 45, directed))
    remembered = RememberedEvidence(evidence, {})
    # The second has the ends and the number of the first, and other pairs between.
    asked = [([0, 1, 2], [3, 4, 5]), ([0, 7, 2], [3, 8, 5]), ([0, 1, 2], [3, 6, 5]), ([0, 2], [3, 5]), ([1], [0])]
    for heads, tails in asked * 2 + asked[::-1]:
        pair = torch.tensor(heads), torch.tensor(tails)
        assert torch.equal(remembered(*pair), evidence(*pair))


def test_what_is_remembered_is_looked_up_once_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = RememberedEvidence(evidence_of(dated_view(18, 45, True)), {})
    pairs = torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5])
    assert remembered(*pairs) is remembered(pairs[0].clone(), pairs[1].clone())
    monkeypatch.setattr(module, "MOST_REMEMBERED", 4)
    more = torch.tensor([4, 5]), torch.tensor([0, 1])
    first, again = remembered(*more), remembered(*more)
    assert first is not again
    assert torch.equal(first, again)


# ---- names ----


def test_names_are_chosen_in_order() -> None:
    dated, undated = dated_view(8, 10, True), random_view(8, 10)
    assert choose_evidence("none", dated, True) == ()
    assert choose_evidence("common,degrees", dated, True) == ("common", "degrees")
    assert choose_evidence(" ages , paths", dated, True) == ("ages", "paths")
    assert choose_evidence("ages,paths", undated, True) == ("paths",)
    assert choose_evidence("ages", undated, True) == ()


@pytest.mark.parametrize("dated", [True, False])
def test_nodes_without_features_of_their_own_have_no_similarity(dated: bool) -> None:
    view = dated_view(8, 10, True) if dated else random_view(8, 10)
    setting = "similarity,degrees, ages"
    ages = ("ages",) if dated else ()
    assert choose_evidence(setting, view, described=True) == ("similarity", "degrees", *ages)
    assert choose_evidence(setting, view, described=False) == ("degrees", *ages)
    assert choose_evidence("similarity", view, described=False) == ()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_links_of_one_date_have_no_age(count: int) -> None:
    view = random_view(8, count)
    same = GraphView(8, True, view.links, torch.full((count,), 3))
    assert choose_evidence("degrees,ages", same, True) == ("degrees",)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("degree", "did you mean 'degrees'"),
        ("common,pahts", "unknown evidence 'pahts'; did you mean 'paths'"),
        ("none,common", "unknown evidence 'none'"),
        ("common,", "unknown evidence ''"),
        ("", "unknown evidence ''"),
        ("common, common", "names a kind twice"),
        ("similarity,similarity", "names a kind twice"),
    ],
)
@pytest.mark.parametrize("described", [True, False])
def test_wrong_names_are_told(setting: str, message: str, described: bool) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_evidence(setting, random_view(8, 10), described)
    assert message in str(caught.value)


# ---- devices ----


@ASKED
def test_evidence_on_every_device(view: GraphView, device: torch.device) -> None:
    here, there = evidence_of(view), PairEvidence(KINDS, view, features_of(view).to(device))
    heads, tails = all_pairs(view)
    found = there(heads.to(device), tails.to(device))
    assert found.device.type == device.type
    torch.testing.assert_close(found.cpu(), here(heads, tails), rtol=1e-4, atol=1e-4)
    nodes = torch.arange(view.num_nodes)
    for wanted, rows in zip(
        here.rows(nodes, 0, len(nodes), False), there.rows(nodes.to(device), 0, len(nodes), False), strict=True
    ):
        assert wanted is not None
        assert rows is not None
        torch.testing.assert_close(rows.cpu(), wanted, rtol=1e-4, atol=1e-4)
