"""METHOD 2 written down once more: dense matrices, float64, plain torch; nothing of the library's layers.

An oracle takes the parameters of a model by name and a batch's structure, and computes its logits in training
mode, so that the library's fused forms and hand-written gradients are checked against the formulas.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.graph.message import MessageGraph
from headtail.nn.models import ModelShape
from headtail.sampling.sampler import Batch

Parameters = dict[str, Tensor]


def graph_norm(x: Tensor, alpha: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """(x − α·mean) / sqrt(mean((x − α·mean)²) + 1e-5)·γ + β over the rows of x."""
    shifted = x - alpha * x.mean(dim=0)
    return shifted / (shifted.square().mean(dim=0) + 1e-5).sqrt() * gamma + beta


def unit(x: Tensor) -> Tensor:
    """Rows of length 1; a row of zeros stays one."""
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)


def batch_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return (x - x.mean(dim=0)) / (x.var(dim=0, correction=0) + 1e-5).sqrt() * gamma + beta


@dataclass
class AmlOracle:
    """Logits of an AML model over `graph`, whose Â is given as a dense matrix."""

    shape: ModelShape
    graph: MessageGraph
    batch: Batch
    adjacency: Tensor  # Â [N, N], float64, from its definition

    def logits(self, p: Parameters) -> tuple[Tensor, Tensor]:
        """Returns the logits of positives [P] and negatives [Q]."""
        v = self.tails(p)
        u = self.heads(p)
        if self.shape.homophily:
            u = u + v[: self.batch.num_rows]
        pairs = torch.cat([self.batch.positive, self.batch.negative], dim=1)
        z = u[pairs[0]] * v[pairs[1]]
        for layer in range(self.shape.scorer_layers - 1):
            z = z @ p[f"scorer.hidden.{layer}.weight"].T + p[f"scorer.hidden.{layer}.bias"]
            z = batch_norm(z, p[f"scorer.norms.{layer}.weight"], p[f"scorer.norms.{layer}.bias"]).relu()
        scores = (z @ p["scorer.last.weight"].T + p["scorer.last.bias"]).squeeze(1)
        return scores[: self.batch.positive.shape[1]], scores[self.batch.positive.shape[1] :]

    def heads(self, p: Parameters) -> Tensor:
        """Layer by layer over the batch's blocks; a block's targets are the first of its sources."""
        assert self.batch.neighbourhood is not None
        nodes = self.batch.neighbourhood.nodes
        x = self.graph.features.double()[nodes]
        for layer, block in enumerate(self.batch.neighbourhood.blocks):
            rows = block.num_targets
            # The full sampler must hand over Â itself, so the block's rows are read from Â.
            weights = self.adjacency[nodes[:rows]][:, nodes[: x.shape[0]]]
            prefix = f"head.convolutions.{layer}"
            if self.shape.encoder == "gat":
                weights = self.attention(p, prefix, x, x[:rows], weights > 0)
            h = self.convolve(p, prefix, weights @ x, x[:rows])
            previous = x[:rows] if layer else None
            x = self.finish(p, f"head.finishes.{layer}", h, previous, layer, unit_last=True)
        return x

    def attention(self, p: Parameters, prefix: str, x: Tensor, x_target: Tensor, linked: Tensor) -> Tensor:
        w = p[f"{prefix}.neighbours.weight"]
        source = (x @ w.T) @ p[f"{prefix}.attend_source"][0]
        target = (x_target @ w.T) @ p[f"{prefix}.attend_target"][0]
        logits = target[:, None] + source[None, :]
        logits = torch.where(logits > 0, logits, 0.2 * logits)
        return torch.softmax(logits.masked_fill(~linked, -torch.inf), dim=1)

    def convolve(self, p: Parameters, prefix: str, neighbours: Tensor, itself: Tensor) -> Tensor:
        w1, b1 = p[f"{prefix}.neighbours.weight"], p[f"{prefix}.neighbours.bias"]
        w2, b2 = p[f"{prefix}.itself.weight"], p[f"{prefix}.itself.bias"]
        return neighbours @ w1.T + b1 + itself @ w2.T + b2

    def finish(
        self, p: Parameters, prefix: str, h: Tensor, previous: Tensor | None, layer: int, unit_last: bool
    ) -> Tensor:
        last = layer == self.shape.layers - 1
        h = graph_norm(h, p[f"{prefix}.norm.alpha"], p[f"{prefix}.norm.gamma"], p[f"{prefix}.norm.beta"])
        h = h if last else h.relu()
        h = h if previous is None else h + previous
        return unit(h) if unit_last or not last else h

    def tails(self, p: Parameters) -> Tensor:
        """V = normalise(Ṽ + Δ) of the batch's nodes."""
        x = self.graph.features.double()
        smooth = torch.linalg.matrix_power(self.adjacency, self.shape.layers) @ x
        first, second = (smooth, x - smooth) if self.shape.pre_encoding else (x, x)
        shared = "head.convolutions" if self.shape.knowledge_transfer else "tail.own"
        h, d = first[self.batch.nodes], second[self.batch.nodes]
        for layer in range(self.shape.layers):
            product = self.convolve(p, f"{shared}.{layer}", h, h)
            h = self.finish(p, f"tail.finishes.{layer}", product, h if layer else None, layer, unit_last=False)
            if self.shape.residual:
                w, b = (p[f"tail.residual_linears.{layer}.{part}"] for part in ("weight", "bias"))
                previous = d if layer else None
                d = self.finish(p, f"tail.residual_finishes.{layer}", d @ w.T + b, previous, layer, unit_last=False)
        return unit(h + d if self.shape.residual else h)


def cross_entropy(positive: Tensor, negative: Tensor) -> Tensor:
    """Mean of −log σ(s) over positives and of −log(1 − σ(s)) over negatives."""
    return -torch.log(torch.sigmoid(positive)).mean() - torch.log(1 - torch.sigmoid(negative)).mean()
