"""What nodes are described by: own features and structure side by side, for any view, in and out of tensors."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headtail.config import make_config
from headtail.graph.features import NodeInputs, make_features, read_features
from headtail.graph.structure import FixedColumns, SpectralBasis, spectral_structure
from headtail.graph.view import GraphView
from random_graphs import graph_of, random_links, random_view

NODES = 20
OWN_COLUMNS = 3


def own_features() -> Tensor:
    return torch.randn(NODES, OWN_COLUMNS, generator=torch.Generator().manual_seed(0))


def view_of(directed: bool = True) -> GraphView:
    return random_view(NODES, 50, directed)


def fewer_links(view: GraphView) -> GraphView:
    return GraphView(view.num_nodes, view.directed, view.links[:, 4:])


def described_by(kind: str, directed: bool) -> NodeInputs:
    own = own_features() if kind.startswith("own") else None
    structure: SpectralBasis | FixedColumns | None = None
    if kind.endswith("svd"):
        structure = spectral_structure(view_of(directed), 7)
    elif kind.endswith("mf"):
        structure = FixedColumns(torch.randn(NODES, 4, generator=torch.Generator().manual_seed(1)))
    return NodeInputs(own, structure)


WIDTHS = {"own": 3, "svd": 7, "mf": 4, "own and svd": 10, "own and mf": 7}
NAMES = {
    "own": {"features"},
    "svd": {"structure_per_tail", "structure_per_head"},
    "mf": {"structure_table"},
    "own and svd": {"features", "structure_per_tail", "structure_per_head"},
    "own and mf": {"features", "structure_table"},
}
KINDS = pytest.mark.parametrize("kind", WIDTHS)
DIRECTED = pytest.mark.parametrize("directed", [True, False])


@KINDS
@DIRECTED
def test_width_is_that_of_what_is_seen(kind: str, directed: bool) -> None:
    features, view = described_by(kind, directed), view_of(directed)
    for shown in (view, fewer_links(view)):
        seen = features.seen_in(shown)
        assert seen.shape == (NODES, features.width) == (NODES, WIDTHS[kind])
        assert seen.dtype == torch.float32


@KINDS
@DIRECTED
def test_own_features_stand_before_what_the_view_says(kind: str, directed: bool) -> None:
    features, view = described_by(kind, directed), view_of(directed)
    for shown in (view, fewer_links(view)):
        parts = [] if features.own is None else [features.own]
        parts += [] if features.structure is None else [features.structure.columns(shown)]
        assert torch.equal(features.seen_in(shown), torch.cat(parts, dim=1))


@KINDS
def test_only_what_is_read_off_the_links_changes_with_them(kind: str) -> None:
    features, view = described_by(kind, True), view_of()
    every, fewer = features.seen_in(view), features.seen_in(fewer_links(view))
    changed = (every != fewer).any(dim=0)
    own = OWN_COLUMNS if kind.startswith("own") else 0
    assert not changed[:own].any()
    assert changed[own:].all() if kind.endswith("svd") else not changed[own:].any()


@KINDS
@DIRECTED
def test_features_come_back_from_their_tensors(kind: str, directed: bool) -> None:
    features, view = described_by(kind, directed), view_of(directed)
    tensors = features.tensors()
    assert set(tensors) == NAMES[kind] - (set() if directed else {"structure_per_head"})
    back = read_features({"train": view.links, **tensors}, features.width)
    assert (back.own is None, back.structure is None) == (features.own is None, features.structure is None)
    assert type(back.structure) is type(features.structure)
    assert back.width == features.width
    for shown in (view, fewer_links(view)):
        assert torch.equal(back.seen_in(shown), features.seen_in(shown))


@pytest.mark.parametrize(("kind", "missing"), [(kind, part) for kind, parts in NAMES.items() for part in sorted(parts)])
def test_missing_parts_are_told(kind: str, missing: str) -> None:
    features = described_by(kind, directed=True)
    tensors = features.tensors()
    del tensors[missing]
    with pytest.raises(KeyError):
        read_features({"train": view_of().links, **tensors}, features.width)


@KINDS
def test_features_on_every_device(kind: str, device: torch.device) -> None:
    features, view = described_by(kind, True), view_of()
    there = features.to(device)
    assert {tensor.device.type for tensor in there.tensors().values()} == {device.type}
    seen = there.seen_in(fewer_links(view).to(device))
    assert seen.device.type == device.type
    torch.testing.assert_close(seen.cpu(), features.seen_in(fewer_links(view)))


@pytest.mark.parametrize(
    ("described", "structure", "own", "structural"),
    [
        (False, "auto", 0, 128),
        (False, 0, 0, 128),
        (False, 6, 0, 6),
        (True, "auto", 3, 0),
        (True, 0, 3, 0),
        (True, 6, 3, 6),
    ],
)
def test_structure_is_made_where_it_is_wanted_or_nothing_else_is_there(
    described: bool, structure: str | int, own: int, structural: int
) -> None:
    links = random_links(300, 900, True)
    view = GraphView(300, True, links)
    graph = graph_of(links, 300)
    if described:
        graph = replace(graph, features=torch.randn(300, 3, generator=torch.Generator().manual_seed(0)))
    config = make_config("paper", settings={"structure": structure, "seed": 5})
    made = make_features(graph, view, config)
    assert made.own is graph.features
    assert (made.structure is not None) == (structural > 0)
    assert made.width == own + structural
    seen = made.seen_in(view)
    assert seen.shape == (300, own + structural)
    if structural:
        assert torch.equal(seen[:, own:], spectral_structure(view, structural, seed=5).columns(view))
