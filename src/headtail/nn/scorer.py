"""The scorer: an MLP over the Hadamard product of a head's and a tail's representation (eq. 8)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.errors import ConfigError
from headtail.graph.tables import Table, rows_of
from headtail.kernels.gather import pair_product as products_of_rows
from headtail.kernels.launch import fused
from headtail.nn.convolutions import linear, product_with
from headtail.nn.evidence import EvidenceEncoder
from headtail.nn.norm import batch_norm_relu, batch_norm_relu_dot
from headtail.nn.sparse import pair_product
from headtail.ranks import ALONE, Ranks
from headtail.sampling.places import PairPlaces


def tile(device: torch.device, dim: int, heads: int) -> tuple[int, int]:
    """Returns how many tails and heads, of so many, to score at once: hidden values that fit the cache, or fill a GPU.

    A GPU is filled by few heads too: they get the more tails.
    """
    if device.type == "cpu":
        tails, elements = 512, 2**19
        return tails, max(1, elements // (tails * dim))
    heads = max(1, min(heads, 16))
    return max(1, 2**26 // (heads * dim)), heads


class HadamardScorer(nn.Module):
    """MLP(U_i ⊙ V_j): linear layers with BatchNorm and ReLU after each but the last, one logit.

    Where pairs come with evidence, its encoding is added to what the first layer makes of U_i ⊙ V_j.

    Attributes:
        ranks: who has the pairs in training; batch norms see those of all ranks.
    """

    ranks: Ranks = ALONE

    def __init__(self, dim: int, layers: int, dropout: float, evidence_columns: int = 0) -> None:
        super().__init__()
        if evidence_columns and layers < 2:
            raise ConfigError("evidence enters the scorer's first hidden layer; set scorer_layers to 2 or more.")
        self.dropout = dropout
        self.evidence = EvidenceEncoder(evidence_columns, dim) if evidence_columns else None
        self.hidden = nn.ModuleList(linear(dim, dim) for _ in range(layers - 1))
        self.norms = nn.ModuleList(nn.BatchNorm1d(dim) for _ in range(layers - 1))
        self.last = linear(dim, 1)

    def forward(
        self,
        u: Tensor,
        v: Tensor,
        pairs: PairPlaces,
        evidence: Tensor | None = None,
        count: Tensor | None = None,
    ) -> Tensor:
        """Returns logits [P] of pairs of rows of u [R, r] and v [C, r], with evidence [P, columns].

        Where `count` is given, only so many of the pairs are real, and the others are padding.
        """
        z = pair_product(u, v, pairs)
        for layer, (weights, norm) in enumerate(zip(self.hidden, self.norms, strict=True)):
            product = product_with(weights, z)
            if self.evidence is not None and layer == 0:
                assert evidence is not None
                product = product + product_with(self.evidence.second, self.evidence.hidden(evidence))
            assert isinstance(norm, nn.BatchNorm1d)
            if layer == len(self.hidden) - 1 and not self.dropout:
                return batch_norm_relu_dot(norm, product, self.last, count, self.ranks)
            z = batch_norm_relu(norm, product, count, self.ranks)
            if self.dropout:
                z = F.dropout(z, self.dropout, self.training)
        with torch.autocast(z.device.type, enabled=False):  # one column costs nothing, and logits are compared
            out: Tensor = self.last(z.to(self.last.weight.dtype)).squeeze(-1)
        return out

    @torch.no_grad()
    def score_tails(self, u: Table, v: Table, heads: Tensor, tails: Tensor, evidence: Tensor | None = None) -> Tensor:
        """Returns logits [B, T] of rows `heads` [B] of u against rows `tails` [B, T] of v, own ones for every head.

        In evaluation mode: the batch norms are folded into the weights, and what is as large as all pairs is written
        as rarely as can be, since that is what the time goes to. `evidence` [B · T, columns] is that of the pairs.
        """
        z = self._products(u, v, heads, tails)
        for layer in range(len(self.hidden)):
            matrix, shift = self._folded(layer)
            z = torch.addmm(shift, z, matrix.T)
            if layer == 0 and evidence is not None:
                z.add_(self._evidence(evidence))
            z.relu_()
        return (z @ self.last.weight[0]).add_(self.last.bias).view_as(tails)

    def _products(self, u: Table, v: Table, heads: Tensor, tails: Tensor) -> Tensor:
        """Returns [B · T, r] in the precision of the weights: rows `heads` [B] of u times rows `tails` [B, T] of v."""
        kind = self.last.weight.dtype
        if isinstance(u, Tensor) and isinstance(v, Tensor) and fused(u):
            left = heads.repeat_interleave(tails.shape[1])
            return products_of_rows(u, v, left, tails.reshape(-1), kind)
        z = rows_of(v, tails.reshape(-1)).to(kind).view(*tails.shape, v.shape[1])
        return z.mul_(rows_of(u, heads)[:, None]).view(-1, v.shape[1])

    @torch.no_grad()
    def score_rows(self, u: Tensor, v: Tensor, evidence: Tensor | None = None) -> Tensor:
        """Returns logits [B, T] of every head u [B, r] against every tail v [T, r] (evaluation mode).

        `evidence` [B, T, columns] is that of the pairs, where the scorer reads any.

        W·(u ⊙ v) = (W·diag(u))·v, so the first layer is one matrix product for several heads at once and u ⊙ v is
        never formed; the batch norms' affine maps are folded into the weights.
        """
        u, v = u.to(self.last.weight.dtype), v.to(self.last.weight.dtype)
        out = u.new_empty(u.shape[0], v.shape[0])
        layers = [self._folded(i) for i in range(len(self.hidden))]
        tails, heads = tile(u.device, u.shape[1], u.shape[0])
        for top in range(0, u.shape[0], heads):
            first = self._first_layer(layers, u[top : top + heads])
            for left in range(0, v.shape[0], tails):
                block = v[left : left + tails]
                more = None
                if evidence is not None:
                    more = self._evidence(evidence[top : top + heads, left : left + tails]).transpose(1, 2)
                out[top : top + heads, left : left + tails] = self._tile(first, layers[1:], block, more)
        return out

    def _first_layer(self, layers: list[tuple[Tensor, Tensor]], u: Tensor) -> tuple[Tensor, Tensor | None]:
        """Returns the first layer with the heads u [B, r] multiplied in: weights [B·k, r] and bias [B·k, 1]."""
        if not layers:
            return self.last.weight * u, None
        matrix, bias = layers[0]
        return (matrix * u[:, None, :]).flatten(0, 1), bias.repeat(u.shape[0])[:, None]

    def _tile(
        self,
        first: tuple[Tensor, Tensor | None],
        rest: list[tuple[Tensor, Tensor]],
        v: Tensor,
        evidence: Tensor | None,
    ) -> Tensor:
        """Returns logits [B, T] of the heads in `first` against the tails v [T, r]."""
        weights, bias = first
        if bias is None:
            return weights @ v.T + self.last.bias
        z = torch.addmm(bias, weights, v.T).view(-1, self.last.in_features, v.shape[0])
        z = (z if evidence is None else z.add_(evidence)).relu_()
        for matrix, shift in rest:
            z = (matrix @ z).add_(shift[:, None]).relu_()
        return (self.last.weight @ z).squeeze(1) + self.last.bias

    def _evidence(self, evidence: Tensor) -> Tensor:
        """Returns what evidence [..., columns] adds to the first layer with its batch norm folded in, [..., r]."""
        assert self.evidence is not None
        encoded: Tensor = self.evidence(evidence)
        return encoded.mul_(self._slope(0))

    def _slope(self, layer: int) -> Tensor:
        norm = self.norms[layer]
        assert isinstance(norm, nn.BatchNorm1d)
        assert norm.running_var is not None
        return norm.weight * torch.rsqrt(norm.running_var + norm.eps)

    def _folded(self, layer: int) -> tuple[Tensor, Tensor]:
        """Returns weights and bias of a hidden layer with its batch norm's running statistics folded in."""
        norm, weights = self.norms[layer], self.hidden[layer]
        assert isinstance(norm, nn.BatchNorm1d)
        assert isinstance(weights, nn.Linear)
        assert norm.running_mean is not None
        slope = self._slope(layer)
        return weights.weight * slope[:, None], (weights.bias - norm.running_mean) * slope + norm.bias
