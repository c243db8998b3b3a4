"""Tiny models with parameters off their initial values, and batches to feed them."""

import torch
from torch import nn

from headtail.graph.message import MessageGraph
from headtail.graph.view import GraphView
from headtail.nn.models import MODELS, LinkModel, ModelShape
from headtail.sampling.batches import RowBatches
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.sampler import Batch, BatchSampler, GnnScope


def randomise(module: nn.Module, seed: int = 7) -> None:
    """Moves parameters and running statistics off their initial values, so that each of them counts."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                drawn = torch.rand(buffer.shape, generator=generator)
                buffer.copy_(drawn - 0.5 if "mean" in name else drawn + 0.5)


def make_model(method: str, shape: ModelShape, seed: int = 0) -> LinkModel:
    """Returns a randomised model in training mode."""
    torch.manual_seed(seed)
    model = MODELS[method](shape)
    randomise(model, seed)
    return model


def one_batch(
    graph: MessageGraph,
    view: GraphView,
    layers: int,
    scope: GnnScope = "rows",
    neighbours: str = "full",
    fanout: Fanout | None = None,
    seed: int = 0,
    batches: int = 1,
) -> Batch:
    """Returns the first batch of an epoch, by default all of it, with two uniform negatives per link."""
    rows = view.to(graph.device).out_rows
    sampler = BatchSampler(
        graph=graph,
        batches=RowBatches(rows, rows.col.numel() // batches),
        negatives="uniform",
        negatives_per_positive=2,
        negative_space=NegativeSpace(rows),
        neighbours=NEIGHBOURS[neighbours](fanout or Fanout()),
        gnn_scope=scope,
        layers=layers,
    )
    return next(sampler.epoch(torch.Generator(device=graph.device).manual_seed(seed)))
