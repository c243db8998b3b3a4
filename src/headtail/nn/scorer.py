"""The scorer: an MLP over the Hadamard product of a head's and a tail's representation (eq. 8)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.nn.convolutions import linear
from headtail.nn.sparse import pair_product


class HadamardScorer(nn.Module):
    """MLP(U_i ⊙ V_j): linear layers with BatchNorm and ReLU after each but the last, one logit."""

    def __init__(self, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.hidden = nn.ModuleList(linear(dim, dim) for _ in range(layers - 1))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers - 1))
        self.last = linear(dim, 1)

    def forward(self, u: Tensor, v: Tensor, pairs: Tensor) -> Tensor:
        """Returns logits [P] of pairs [2, P] of rows of u [R, r] and v [C, r]."""
        z = pair_product(u, v, pairs)
        for weights, norm in zip(self.hidden, self.norms, strict=True):
            z = F.relu(norm(weights(z)), inplace=True)
            if self.dropout:
                z = F.dropout(z, self.dropout, self.training)
        out: Tensor = self.last(z).squeeze(-1)
        return out

    @torch.no_grad()
    def score_rows(self, u: Tensor, v: Tensor) -> Tensor:
        """Returns logits [B, T] of every head u [B, r] against every tail v [T, r] (evaluation mode).

        W·(u ⊙ v) = (W·diag(u))·v, so the first layer is one product per head and u ⊙ v is never formed; the
        batch norm's affine map is folded into the weights.
        """
        if not self.hidden:
            weight = self.last.weight * u
            return weight @ v.T + self.last.bias
        weights = [self._folded(i) for i in range(len(self.hidden))]
        out = u.new_empty(u.shape[0], v.shape[0])
        if out.numel() == 0:
            return out
        for place, row in enumerate(u):
            matrix, bias = weights[0]
            z = torch.addmm(bias, v, (matrix * row).T).relu_()
            for matrix, bias in weights[1:]:
                z = torch.addmm(bias, z, matrix.T).relu_()
            out[place] = torch.addmv(self.last.bias, z, self.last.weight[0])
        return out

    def _folded(self, layer: int) -> tuple[Tensor, Tensor]:
        """Returns weights and bias of a hidden layer with its batch norm's running statistics folded in."""
        norm, weights = self.norms[layer], self.hidden[layer]
        assert isinstance(norm, nn.BatchNorm1d)
        assert isinstance(weights, nn.Linear)
        assert norm.running_var is not None
        assert norm.running_mean is not None
        slope = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        return weights.weight * slope[:, None], (weights.bias - norm.running_mean) * slope + norm.bias
