"""Padded batches: the same loss and gradients as without padding, whatever the capacity."""

import pytest
import torch
from tiny_models import make_model, one_batch
from torch import Tensor

from headtail.graph.view import GraphView
from headtail.nn.models import LinkModel, ModelShape
from headtail.sampling.neighbours import Fanout
from headtail.sampling.padding import Capacity, padded, tensors_of
from headtail.sampling.sampler import Batch, GnnScope
from headtail.training.objectives import OBJECTIVES, PaddedShares
from random_graphs import message_graph, random_view

SCOPES: dict[str, GnnScope] = {"aml": "rows", "symmetric": "all", "smlp": "none"}


def setting(method: str, device: torch.device, encoder: str = "sage") -> tuple[LinkModel, Batch]:
    view: GraphView = random_view(40, 150)
    graph = message_graph(view, dim=5, device=device)
    shape = ModelShape(in_dim=5, dim=8, layers=3, encoder=encoder, norm_statistics="graph")
    model = make_model(method, shape).to(device)
    return model, one_batch(graph, view, 3, SCOPES[method], "bns", Fanout(3, 2), batches=4)


def loss_of(model: LinkModel, batch: Batch, objective: str) -> Tensor:
    assert batch.graph is not None
    logits = model.logits(batch.graph, batch)
    if batch.counts is None:
        count = batch.positive.shape[1]
        return OBJECTIVES[objective](logits[:count], logits[count:], batch.negative_of)
    return OBJECTIVES[objective](logits, logits, batch.negative_of, PaddedShares(batch.counts, logits.numel()))


def facts(model: LinkModel, batch: Batch, objective: str) -> list[Tensor]:
    """The loss, every gradient and every running statistic after one step of training."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.zero_grad()
    loss = loss_of(model, batch, objective)
    loss.backward()
    found = [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]
    found += [value.clone().float() for value in model.buffers()]
    model.load_state_dict(before)
    return found


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
@pytest.mark.parametrize("method", sorted(SCOPES))
@pytest.mark.parametrize(("slack", "unit"), [(0.0, 1), (0.3, 16), (2.0, 64)])
def test_padding_changes_nothing(method: str, objective: str, slack: float, unit: int, device: torch.device) -> None:
    assert_padding_changes_nothing(method, "sage", objective, slack, unit, device)


@pytest.mark.parametrize("method", ["aml", "symmetric"])
@pytest.mark.parametrize(("slack", "unit"), [(0.0, 1), (0.3, 16), (2.0, 64)])
def test_padding_changes_nothing_for_attention(method: str, slack: float, unit: int, device: torch.device) -> None:
    assert_padding_changes_nothing(method, "gat", "cross_entropy", slack, unit, device)


def assert_padding_changes_nothing(
    method: str, encoder: str, objective: str, slack: float, unit: int, device: torch.device
) -> None:
    model, batch = setting(method, device, encoder)
    size = Capacity.of(batch)
    capacity = size.roomier(size, slack, unit)
    assert capacity.holds(size)
    wanted, found = facts(model, batch, objective), facts(model, padded(batch, capacity), objective)
    assert len(wanted) > 20 or method == "smlp"
    for have, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(have, want, rtol=2e-4, atol=2e-5)


def test_a_capacity_that_is_too_small_is_told() -> None:
    _, batch = setting("aml", torch.device("cpu"))
    size = Capacity.of(batch)
    assert size.holds(size)
    for place in range(len(size._sizes())):
        sizes = size._sizes()
        sizes[place] -= 1
        smaller = Capacity(sizes[0], sizes[1], sizes[2], tuple(zip(sizes[4::2], sizes[5::2], strict=True)), sizes[3])
        assert not smaller.holds(size)
        assert smaller.roomier(size, 0.0, 1) == size


def test_batches_of_one_capacity_have_tensors_of_one_shape(device: torch.device) -> None:
    _, batch = setting("aml", device)
    size = Capacity.of(batch)
    capacity = size.roomier(size, 0.5, 8)
    view = random_view(40, 150)
    other = one_batch(message_graph(view, dim=5, device=device), view, 3, "rows", "bns", Fanout(3, 2), 5, 4)
    assert capacity.holds(Capacity.of(other))
    first, second = list(tensors_of(padded(batch, capacity))), list(tensors_of(padded(other, capacity)))
    assert [x.shape for x in first] == [x.shape for x in second]
    assert [x.dtype for x in first] == [x.dtype for x in second]
    assert any(not torch.equal(x, y) for x, y in zip(first, second, strict=True))
