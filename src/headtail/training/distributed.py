"""Training by several ranks: what they share of a model, of a step and of an epoch.

Gradients are summed by one exchange of all of them after the backward pass, not by DistributedDataParallel. That takes
the mean over ranks, while shares of a batch are unequal and a loss is already over all of them. It would start its
exchanges amid those of the norms, and it overlaps them with the backward pass, which gains nothing for a model of a few
megabytes.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from headtail.nn.norm import GraphNorm
from headtail.nn.scorer import HadamardScorer
from headtail.ranks import Ranks
from headtail.sampling.sampler import Batch
from headtail.training.counters import COUNTERS, Counters
from headtail.training.steps import B, Loss, Step


def spread_norms(model: nn.Module, ranks: Ranks) -> None:
    """Has the norms of a model normalise by the rows of all ranks."""
    for module in model.modules():
        if isinstance(module, GraphNorm | HadamardScorer):
            module.ranks = ranks


def shared_nodes(batch: Batch, ranks: Ranks, num_nodes: int) -> Batch:
    """Returns a batch whose nodes know what they count in norms: one that k ranks encode counts 1/k on each of them.

    One process would encode it once. If it counted k times, popular nodes would weigh more the more ranks there are.
    """
    if not ranks.several:
        return batch
    blocks = [] if batch.neighbourhood is None else batch.neighbourhood.blocks
    # The targets of a block are the first of the nodes that feed the innermost one.
    sets = [batch.nodes, *(batch.neighbourhood.nodes[: b.num_targets] for b in blocks if batch.neighbourhood)]
    kind = torch.uint8 if ranks.size < 256 else torch.int32
    seen = torch.zeros(len(sets), num_nodes, dtype=kind, device=batch.nodes.device)
    for row, nodes in zip(seen, sets, strict=True):
        row[nodes] = 1
    shares, *of_targets = (1 / row[nodes] for row, nodes in zip(ranks.sum(seen), sets, strict=True))
    if batch.neighbourhood is None:
        return replace(batch, shares=shares)
    blocks = [replace(block, count=share) for block, share in zip(blocks, of_targets, strict=True)]
    return replace(batch, shares=shares, neighbourhood=replace(batch.neighbourhood, blocks=blocks))


class SharedStep(Step[B]):
    """Learns a batch of which every rank has a share, perhaps none; the loss is the sum of what the ranks compute."""

    def __init__(self, loss: Callable[[B], Loss], optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
        super().__init__(loss, optimizer)
        self.ranks = ranks

    def __call__(self, batch: B) -> Loss:
        """Takes the step on all ranks and returns the loss of the whole batch before it."""
        loss = self.loss(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss.value.backward()  # type: ignore[no-untyped-call]
        value = self._sum(loss.value.detach())
        self.optimizer.step()
        return Loss(value, loss.links, loss.scores.detach())

    def _sum(self, value: Tensor) -> Tensor:
        """Sums all gradients in place, and a loss, over the ranks."""
        # A parameter without a gradient has none on any rank: an empty share goes through the same operations.
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        parts = [p.grad for p in parameters if p.grad is not None] + [value]
        flat = self.ranks.sum(torch.cat([part.reshape(-1) for part in parts]))
        summed = torch.split(flat, [part.numel() for part in parts])
        torch._foreach_copy_(parts, [each.view_as(part) for part, each in zip(parts, summed, strict=True)])
        return value


def epoch_totals(ranks: Ranks, links: int, loss: float, counters: Counters) -> tuple[int, float, dict[str, int]]:
    """Returns links, sum of losses and work of an epoch, over all ranks."""
    work = counters.as_dict()
    own = torch.tensor([links, loss, *work.values()], dtype=torch.float64)
    all_links, all_loss, *all_work = ranks.sum(own).tolist()
    return int(all_links), all_loss, {name: int(count) for name, count in zip(COUNTERS, all_work, strict=True)}
