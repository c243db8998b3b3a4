"""A small network that ranks a head's candidates, learned listwise: the second kind of second stage.

It reads the logarithm of every column, and where the candidate stands by it among all candidates of the head.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import ConfigDict
from torch import Tensor, nn

from headtail.serving.columns import FARTHEST

HIDDEN = (128, 64)
EPOCHS, HEADS_OF_BATCH = 12, 64
RATE, DECAY = 2e-3, 1e-3
# Columns are counts and shares: of a share of a hundredth, the logarithm still tells something.
SCALE = 100.0


def as_logarithm(values: Tensor) -> Tensor:
    """Returns values on a scale where counts and shares of any size are near each other."""
    return values.sign() * (SCALE * values.abs()).log1p()


@dataclass(frozen=True)
class Network:
    """Weights of a network, as plain numbers.

    Attributes:
        columns: what it reads, by name.
        middle, deviation: of the logarithm of each column where it was learned.
        weights, biases: of its layers, the weights of a layer in one row, output by output.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    columns: list[str]
    middle: list[float]
    deviation: list[float]
    weights: list[list[float]]
    biases: list[list[float]]

    def check(self) -> None:
        """Makes sure that it hangs together.

        Raises:
            ValueError: it does not.
        """
        widths = [2 * len(self.columns), *map(len, self.biases)]
        sizes = [outputs * inputs for inputs, outputs in pairwise(widths)]
        if (
            not self.columns
            or not self.biases
            or widths[-1] != 1
            or len(self.middle) != len(self.columns)
            or len(self.deviation) != len(self.columns)
            or not all(each > 0 for each in self.deviation)
            or [len(each) for each in self.weights] != sizes
        ):
            raise ValueError("a network has other weights than columns and layers")

    def score(self, logs: Tensor, stands: Tensor) -> Tensor:
        """Returns float32 [C] of candidates by the logarithms of columns [C, columns] and where they stand."""
        layers, middle, deviation = self._tensors
        hidden = _read(logs, stands, middle, deviation)
        for weight, bias in layers[:-1]:
            hidden = F.silu(F.linear(hidden, weight, bias))
        weight, bias = layers[-1]
        return F.linear(hidden, weight, bias).squeeze(1)

    @cached_property
    def _tensors(self) -> tuple[list[tuple[Tensor, Tensor]], Tensor, Tensor]:
        pairs = zip(self.weights, self.biases, strict=True)
        layers = [(torch.tensor(weight).view(len(bias), -1), torch.tensor(bias)) for weight, bias in pairs]
        return layers, torch.tensor(self.middle), torch.tensor(self.deviation)


def learn_network(
    columns: list[str], table: Tensor, stands: Tensor, right: Tensor, sizes: Tensor, seed: int
) -> Network:
    """Returns a network that gives the right candidates of a head more than its others.

    Args:
        columns: by name.
        table, stands: float32 [C, columns], the columns of candidates, and where each stands among its head's.
        right: bool [C], what is to be found.
        sizes: int64 [H], how many candidates each head has; some of them right.
        seed: fixes weights and batches.
    """
    logs = as_logarithm(table)
    middle, deviation = logs.mean(dim=0), logs.std(dim=0, correction=0) + 1e-6
    read = _read(logs, stands, middle, deviation)
    firsts = sizes.cumsum(0) - sizes
    there = torch.arange(int(sizes.max())) < sizes[:, None]
    entry = (firsts[:, None] + torch.arange(there.shape[1])).clamp(max=len(read) - 1)
    share = (right[entry] & there).float()
    share /= share.sum(dim=1, keepdim=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        widths = [read.shape[1], *HIDDEN]
        linear = [nn.Linear(inputs, outputs) for inputs, outputs in pairwise([*widths, 1])]
        inner = [part for each in linear[:-1] for part in (each, nn.SiLU())]
        model = nn.Sequential(*inner, linear[-1])
        steps = EPOCHS * -(-len(sizes) // HEADS_OF_BATCH)
        optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=max(2, steps))
        for _ in range(EPOCHS):
            for heads in torch.split(torch.randperm(len(sizes)), HEADS_OF_BATCH):
                scores = model(read[entry[heads]]).squeeze(2).masked_fill(~there[heads], -1e9)
                loss = -(scores.log_softmax(dim=1) * share[heads]).sum(dim=1).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
    with torch.no_grad():
        weights = [each.weight.flatten().tolist() for each in linear]
        biases = [each.bias.tolist() for each in linear]
    return Network(list(columns), middle.tolist(), deviation.tolist(), weights, biases)


def _read(logs: Tensor, stands: Tensor, middle: Tensor, deviation: Tensor) -> Tensor:
    """Returns float32 [C, 2 · columns], what the first layer reads."""
    return torch.cat([((logs - middle) / deviation).clamp(-FARTHEST, FARTHEST), stands], dim=1)
