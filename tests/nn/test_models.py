"""Whole models against METHOD 2 in dense float64, their gradients by finite differences, and any small graph."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from method_oracle import AmlOracle, cross_entropy
from tiny_models import make_model, one_batch

from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.nn.models import MODELS, AmlModel, LinkModel, ModelShape
from headtail.sampling.neighbours import Fanout
from random_graphs import dense_messages, message_graph, random_view, views

SHAPE = ModelShape(in_dim=3, dim=4, layers=2, scorer_layers=2)
VARIANTS = {
    "sage": SHAPE,
    "gat": replace(SHAPE, encoder="gat"),
    "one layer": replace(SHAPE, layers=1, scorer_layers=1),
    "three layers": replace(SHAPE, layers=3, scorer_layers=3),
    "w/o KT": replace(SHAPE, knowledge_transfer=False),
    "w/o Δ": replace(SHAPE, residual=False),
    "w/o HO": replace(SHAPE, homophily=False),
    "w/o PE": replace(SHAPE, pre_encoding=False),
}
variants = pytest.mark.parametrize("variant", VARIANTS)


def case(variant: str, normalisation: str = "row", directed: bool = True) -> tuple[LinkModel, MessageGraph, AmlOracle]:
    """Returns a randomised AML model, its graph, and the oracle over the same batch."""
    shape = VARIANTS[variant]
    view = random_view(10, 16, directed=directed)
    graph = message_graph(view, shape.in_dim, normalisation, shape.layers)
    batch = one_batch(graph, view, shape.layers)
    adjacency = torch.from_numpy(dense_messages(view, normalisation))
    return make_model("aml", shape), graph, AmlOracle(shape, graph, batch, adjacency)


def parameters(model: LinkModel) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().double() for name, parameter in model.named_parameters()}


@variants
@pytest.mark.parametrize("normalisation", ["row", "column", "symmetric"])
@pytest.mark.parametrize("directed", [True, False])
def test_aml_equals_the_method(variant: str, normalisation: str, directed: bool) -> None:
    model, graph, oracle = case(variant, normalisation, directed)
    found = model(graph, oracle.batch)
    wanted = oracle.logits(parameters(model))
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have.double(), want, rtol=1e-3, atol=1e-3)


@variants
def test_gradients_of_the_loss_equal_those_of_the_method(variant: str) -> None:
    model, graph, oracle = case(variant)
    cross_entropy(*model(graph, oracle.batch)).backward()
    values = {name: value.requires_grad_() for name, value in parameters(model).items()}
    cross_entropy(*oracle.logits(values)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        wanted = values[name].grad
        assert wanted is not None, name
        torch.testing.assert_close(
            parameter.grad.double(), wanted, rtol=1e-3, atol=1e-3, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize(
    ("method", "encoder"),
    [("aml", "sage"), ("aml", "gat"), ("aml", "pyg:TransformerConv"), ("symmetric", "gat"), ("smlp", "sage")],
)
def test_gradients_of_the_loss_by_finite_differences(method: str, encoder: str) -> None:
    """Moves each parameter along a random direction, in float64, and compares the slope of the loss."""
    view = random_view(10, 16)
    graph = MessageGraph.build(view, message_graph(view, 3).features.double(), "row", 2)
    model = make_model(method, replace(SHAPE, encoder=encoder)).double()
    batch = one_batch(graph, view, 2, scope=model.gnn_scope)
    cross_entropy(*model(graph, batch)).backward()
    generator, step = torch.Generator().manual_seed(1), 1e-6
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        direction = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        losses = []
        with torch.no_grad():
            for side in (step, -2 * step):
                parameter.add_(direction, alpha=side)
                losses.append(float(cross_entropy(*model(graph, batch))))
            parameter.add_(direction, alpha=step)
        slope = (losses[0] - losses[1]) / (2 * step)
        assert float((parameter.grad * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-7), name


def test_homophily_adds_the_tail_to_the_head() -> None:
    view = random_view(12, 25)
    graph = message_graph(view, 3)
    batch = one_batch(graph, view, 2)
    with_it, without = (make_model("aml", replace(SHAPE, homophily=on)).eval() for on in (True, False))
    without.load_state_dict(with_it.state_dict())
    for kind, first in (("represent", (graph, batch)), ("represent_all", (graph,))):
        u, v = getattr(with_it, kind)(*first)
        plain, same = getattr(without, kind)(*first)
        torch.testing.assert_close(same, v)
        torch.testing.assert_close(u, plain + v[: u.shape[0]])
        torch.testing.assert_close(plain.norm(dim=1), torch.ones(plain.shape[0]))


@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
@pytest.mark.parametrize("encoder", ["sage", "gat", "pyg:TransformerConv"])
def test_a_full_batch_represents_nodes_as_the_whole_graph_does(method: str, encoder: str) -> None:
    view = random_view(12, 25)
    graph = message_graph(view, 3)
    model = make_model(method, replace(SHAPE, encoder=encoder)).eval()
    batch = one_batch(graph, view, 2, scope=model.gnn_scope)
    rows, columns = model.represent(graph, batch)
    all_rows, all_columns = model.represent_all(graph)
    assert rows.shape[0] == batch.num_rows
    torch.testing.assert_close(rows, all_rows[batch.nodes[: batch.num_rows]], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(columns, all_columns[batch.nodes], rtol=1e-4, atol=1e-5)


def test_symmetric_models_treat_both_ends_alike() -> None:
    graph = message_graph(random_view(12, 25), 3)
    for method in ("symmetric", "smlp"):
        rows, columns = make_model(method, SHAPE).eval().represent_all(graph)
        assert torch.equal(rows, columns)
    rows, columns = make_model("aml", SHAPE).eval().represent_all(graph)
    assert not torch.allclose(rows, columns)


def test_smlp_has_no_gnn_and_symmetric_no_tail() -> None:
    assert not hasattr(make_model("smlp", SHAPE), "head")
    assert not hasattr(make_model("symmetric", SHAPE), "tail")
    assert sorted(MODELS) == ["aml", "smlp", "symmetric"]


def test_norms_are_never_shared() -> None:
    model = make_model("aml", SHAPE)
    assert isinstance(model, AmlModel)
    norms = [module for name, module in model.named_modules() if name.endswith(".norm")]
    assert len(norms) == 3 * SHAPE.layers
    assert len({parameter.data_ptr() for norm in norms for parameter in norm.parameters()}) == 3 * len(norms)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["aml", "symmetric", "smlp"])
@given(view=views(max_nodes=7), layers=st.integers(1, 3), sampler=st.sampled_from(["full", "uniform", "bns"]))
def test_any_small_graph_gives_finite_numbers(method: str, view: GraphView, layers: int, sampler: str) -> None:
    shape = ModelShape(in_dim=3, dim=4, layers=layers, scorer_layers=2)
    graph = message_graph(view, 3, layers=layers)
    model = make_model(method, shape)
    batch = one_batch(graph, view, layers, model.gnn_scope, sampler, Fanout(output=2, inner=1, blocked=0.5))
    positive, negative = model(graph, batch)
    assert positive.shape == (view.out_rows.col.numel(),)
    assert negative.shape == batch.negative_of.shape
    logits = torch.cat([positive, negative])
    assert torch.isfinite(logits).all()
    logits.square().sum().backward()
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())
    rows, columns = model.eval().represent_all(graph)
    assert rows.shape == columns.shape == (view.num_nodes, 4)
    assert torch.isfinite(rows).all()
    assert torch.isfinite(columns).all()


@pytest.mark.parametrize("features", [torch.ones(12, 3), torch.zeros(12, 3)], ids=["ones", "zeros"])
def test_features_that_say_nothing_give_finite_numbers(features: torch.Tensor) -> None:
    view = random_view(12, 25)
    graph = MessageGraph.build(view, features, "row", 2)
    model = MODELS["aml"](SHAPE)
    loss = cross_entropy(*model(graph, one_batch(graph, view, 2)))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in model.parameters())


def test_a_model_gives_the_same_logits_on_every_device(device: torch.device) -> None:
    view = random_view(12, 25)
    graph = message_graph(view, 3)
    wanted = make_model("aml", SHAPE)(graph, one_batch(graph, view, 2))
    there = message_graph(view, 3, device=device)
    batch = replace(one_batch(graph, view, 2))
    moved = replace(
        batch,
        **{name: getattr(batch, name).to(device) for name in ("nodes", "positive", "negative", "negative_of")},
        neighbourhood=replace(
            batch.neighbourhood,
            nodes=batch.neighbourhood.nodes.to(device),
            blocks=[replace(block, adjacency=block.adjacency.to(device)) for block in batch.neighbourhood.blocks],
        ),
    )
    found = make_model("aml", SHAPE).to(device)(there, moved)
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have.cpu(), want, rtol=1e-3, atol=1e-3)
