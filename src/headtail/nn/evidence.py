"""The scorer's eye for evidence: standardised columns through a small MLP."""

import torch
from torch import Tensor, nn

from headtail.nn.convolutions import linear

HIDDEN = 256
# Standardised values beyond this are far outside of what training saw, and are cut.
FARTHEST = 6.0


class EvidenceEncoder(nn.Module):
    """Maps evidence [P, columns] to [P, r], to be added to the scorer's first layer.

    Columns are standardised by the statistics of a sample of training pairs. A column that does not vary there can
    teach nothing, and is left out, whatever values it takes later.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, columns: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))
        self.first, self.second = linear(columns, HIDDEN), linear(HIDDEN, dim)

    @torch.no_grad()
    def standardise(self, sample: Tensor) -> None:
        """Takes the statistics of a sample [S, columns]."""
        spread = sample.std(dim=0, correction=0)
        varies = spread > 1e-4
        self.mean.copy_(sample.mean(dim=0))
        self.scale.copy_(torch.where(varies, 1 / spread.clamp(min=1e-4), 0.0))

    def hidden(self, evidence: Tensor) -> Tensor:
        """Returns what goes into the second layer, [P, HIDDEN]."""
        x = ((evidence - self.mean) * self.scale).clamp_(-FARTHEST, FARTHEST)
        out: Tensor = self.first(x).relu_()
        return out

    def forward(self, evidence: Tensor) -> Tensor:
        out: Tensor = self.second(self.hidden(evidence))
        return out
