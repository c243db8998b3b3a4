"""Convolutions: how a node combines its neighbours with itself. One interface, chosen by name.

Every convolution also runs on the identity graph, where a node's only neighbour is itself (`on_itself`):
that is the tail encoder's layer, so knowledge transfer needs no second implementation (eq. 3).
"""

import inspect
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from headtail.errors import ConfigError, did_you_mean
from headtail.graph.csr import CSR
from headtail.graph.tables import Table, rows_of, sources_of
from headtail.kernels.gather import segment_sum_beside
from headtail.kernels.launch import fused
from headtail.kernels.product import Product
from headtail.nn.sparse import aggregate, attend
from headtail.registry import Registry


class Convolution(nn.Module, ABC):
    """Combines neighbours and self into [targets, out_dim]."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim

    @abstractmethod
    def forward(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        """Encodes targets [T, in] from sources [S, in] along adjacency [T × S]."""

    @abstractmethod
    def on_itself(self, x: Tensor) -> Tensor:
        """Encodes x [n, in] on the identity graph."""

    def product(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Product | Tensor:
        """Returns what `forward` does, perhaps before its last product, which can then be fused with what follows."""
        out: Tensor = self(x_source, x_target, adjacency)
        return out

    def product_of_table(self, features: Table, nodes: Tensor, adjacency: CSR) -> Product | Tensor:
        """Returns what `product` makes of targets `nodes` [T] along adjacency [T × N], both read from features [N, d].

        Features get no gradient.
        """
        x_source, adjacency = sources_of(features, adjacency)
        return self.product(x_source, rows_of(features, nodes), adjacency)

    def product_on_itself(self, x: Tensor) -> Product | Tensor:
        """Returns what `on_itself` does, likewise."""
        return self.on_itself(x)


ENCODERS: Registry[type[Convolution]] = Registry("encoder")
PYG_PREFIX = "pyg:"


def linear(in_dim: int, out_dim: int) -> nn.Linear:
    """Returns a linear layer with Glorot weights and zero bias."""
    layer = nn.Linear(in_dim, out_dim)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def product_with(layer: nn.Module, x: Tensor) -> Product:
    """Returns what a linear layer makes of x [n, in], before it is done."""
    assert isinstance(layer, nn.Linear)
    return Product((x,), ((layer.weight,),), (layer.bias,))


class TwoMatrices(Convolution):
    """A convolution that multiplies what it makes of the neighbours by W1, and the node itself by W2."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.neighbours = linear(in_dim, out_dim)
        self.itself = linear(in_dim, out_dim)

    @abstractmethod
    def gathered(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        """Returns what targets [T, in] see of their neighbours; on the identity graph, that is the node itself."""

    def product(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Product:
        seen = self.gathered(x_source, x_target, adjacency)
        return product_with(self.neighbours, seen) + product_with(self.itself, x_target)

    def forward(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        return self.product(x_source, x_target, adjacency).value()

    def product_on_itself(self, x: Tensor) -> Product:
        # x·W1 + x·W2 = x·(W1 + W2): exact, at half the cost.
        first, second = self.neighbours, self.itself
        return Product((x,), ((first.weight, second.weight),), (first.bias, second.bias))

    def on_itself(self, x: Tensor) -> Tensor:
        return self.product_on_itself(x).value()


@ENCODERS.register("sage")
class SageConvolution(TwoMatrices):
    """GraphSAGE with mean aggregation: Â·x·W1 + x·W2 (eq. 1)."""

    def gathered(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        return aggregate(adjacency, x_source)

    def product_of_table(self, features: Table, nodes: Tensor, adjacency: CSR) -> Product | Tensor:
        if not isinstance(features, Tensor) or not fused(features):
            return super().product_of_table(features, nodes, adjacency)
        # (Â·x | x)·(W1 | W2): one product, which writes its rows once.
        a = adjacency
        both = segment_sum_beside(a.row_ptr, a.col, a.weight, features, nodes, a.longest)
        weight = torch.cat([self.neighbours.weight, self.itself.weight], dim=1)
        return Product((both,), ((weight,),), (self.neighbours.bias, self.itself.bias))


@ENCODERS.register("gat")
class GatConvolution(TwoMatrices):
    """Single-head graph attention over the sampled neighbours, plus x·W2."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        self.attend_source = nn.Parameter(torch.empty(1, out_dim))
        self.attend_target = nn.Parameter(torch.empty(1, out_dim))
        nn.init.xavier_uniform_(self.attend_source)
        nn.init.xavier_uniform_(self.attend_target)

    def gathered(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        # a·(x·W) = x·(W·a) and Σ p (x·W) = (Σ p x)·W: only the targets are multiplied by W, after the sum.
        directions = torch.cat([self.attend_source, self.attend_target]) @ self.neighbours.weight
        return attend(adjacency, x_source, directions[0], x_target @ directions[1].to(x_target.dtype))


class PygConvolution(Convolution):
    """Any bipartite convolution of PyTorch Geometric, as that library defines it.

    It sees the sampled neighbours (self-loop included) without sampling weights.
    """

    def __init__(self, name: str, in_dim: int, out_dim: int) -> None:
        super().__init__(in_dim, out_dim)
        from torch_geometric.nn import conv as pyg

        # Only what PyG offers as a convolution: names come from files too.
        conv_class: Any = getattr(pyg, name) if name in pyg.__all__ else None
        if conv_class is None:
            names = [known for known in pyg.__all__ if known.endswith("Conv")]
            raise ConfigError(f"unknown encoder '{PYG_PREFIX}{name}'; {did_you_mean(name, names)}")
        accepted = inspect.signature(conv_class.__init__).parameters
        options = {"add_self_loops": False} if "add_self_loops" in accepted else {}
        try:
            self.conv = conv_class((in_dim, in_dim), out_dim, **options)
            with torch.no_grad():
                probe = self._run(torch.zeros(2, in_dim), torch.zeros(1, in_dim), torch.tensor([[0, 1], [0, 0]]))
            fits = probe.shape == (1, out_dim)
        except Exception as error:
            raise ConfigError(
                f"encoder '{PYG_PREFIX}{name}' cannot serve as a bipartite convolution from {in_dim} to {out_dim} "
                f"columns ({type(error).__name__}: {error}); SAGEConv, GATConv, GATv2Conv, TransformerConv, GraphConv, "
                "ResGatedGraphConv can."
            ) from error
        if not fits:
            raise ConfigError(f"encoder '{PYG_PREFIX}{name}' returns shape {tuple(probe.shape)}, not (1, {out_dim}).")

    def _run(self, x_source: Tensor, x_target: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.conv((x_source, x_target), edge_index)
        return out

    def forward(self, x_source: Tensor, x_target: Tensor, adjacency: CSR) -> Tensor:
        return self._run(x_source, x_target, torch.stack([adjacency.col, adjacency.row]))

    def on_itself(self, x: Tensor) -> Tensor:
        return self._run(x, x, torch.arange(x.shape[0], device=x.device).expand(2, -1))


def make_convolution(encoder: str, in_dim: int, out_dim: int) -> Convolution:
    """Returns a convolution by name: one of ENCODERS, or `pyg:NAME`."""
    if encoder.startswith(PYG_PREFIX):
        return PygConvolution(encoder.removeprefix(PYG_PREFIX), in_dim, out_dim)
    return ENCODERS[encoder](in_dim, out_dim)
