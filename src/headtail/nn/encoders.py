"""The head GNN (eq. 1) and the tail MLP (eq. 3–5), built from the same layers."""

from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.graph.exchange import exchange_rows
from headtail.graph.message import MessageGraph
from headtail.graph.tables import Table, fill, new_table, rows_of, write_rows
from headtail.kernels.product import Product
from headtail.kernels.unit import unit_rows
from headtail.nn.all_nodes import SPARED_BLOCKS, TAILS, encode_layer, norm_of, rows_at_once, settle_branch
from headtail.nn.convolutions import Convolution, linear, make_convolution, product_with
from headtail.nn.norm import GraphNorm, Statistics
from headtail.nn.sparse import with_first
from headtail.ranks import ALONE, Ranks
from headtail.sampling.neighbours import Neighbourhood


@dataclass(frozen=True)
class LayerStyle:
    """What all layers of a model share: output columns, dropout, and how GraphNorm keeps its statistics."""

    dim: int
    dropout: float = 0.0
    momentum: float = 0.1
    statistics: Statistics = "running"


class Finish(nn.Module):
    """What follows every product with weights: GraphNorm, ReLU, dropout, residual, unit rows."""

    def __init__(self, style: LayerStyle, relu: bool, unit: bool) -> None:
        super().__init__()
        self.norm = GraphNorm(style.dim, style.momentum, style.statistics)
        self.dropout, self.relu, self.unit = style.dropout, relu, unit

    def forward(
        self, h: Tensor | Product, previous: Tensor | None, count: Tensor | None = None, plus: Tensor | None = None
    ) -> Tensor:
        """Finishes what came of the weights, or a product that is still to be done; adds `previous` and `plus`."""
        if not self.dropout:
            return self.norm.finish(h, previous, self.relu, self.unit, count, plus)
        h = self.norm.finish(h, None, self.relu, unit=False, count=count)
        h = F.dropout(h, self.dropout, self.training)
        h = h if previous is None else h + previous
        h = h if plus is None else h + plus
        return unit_rows(h) if self.unit else h


def finishes(layers: int, style: LayerStyle, unit_last: bool) -> nn.ModuleList:
    """Returns one Finish per layer; the last has no ReLU, and unit rows only where `unit_last`."""
    steps = range(1, layers + 1)
    return nn.ModuleList(Finish(style, relu=step < layers, unit=unit_last or step < layers) for step in steps)


class HeadEncoder(nn.Module):
    """The GNN: L convolutions, each finished by norm, ReLU, residual and unit rows."""

    def __init__(self, encoder: str, in_dim: int, layers: int, style: LayerStyle) -> None:
        super().__init__()
        self.dim = style.dim
        dims = [in_dim] + [style.dim] * layers
        self.convolutions = nn.ModuleList(make_convolution(encoder, a, b) for a, b in pairwise(dims))
        self.finishes = finishes(layers, style, unit_last=True)

    def forward(self, features: Table, neighbourhood: Neighbourhood) -> Tensor:
        """Encodes the targets of a sampled neighbourhood from features [N, d]."""
        nodes = neighbourhood.nodes
        x: Tensor | None = None
        for layer, (convolution, finish) in enumerate(zip(self.convolutions, self.finishes, strict=True)):
            assert isinstance(convolution, Convolution)
            block, previous = neighbourhood.blocks[layer], None
            if x is None and neighbourhood.reads_features:
                product = convolution.product_of_table(features, nodes[: block.num_targets], block.adjacency)
            else:
                sources, targets = with_first(rows_of(features, nodes) if x is None else x, block.num_targets)
                product = convolution.product(sources, targets, block.adjacency)
                previous = targets if layer else None
            x = finish(product, previous, block.count)
        assert x is not None
        return x

    @torch.no_grad()
    def encode_all(self, graph: MessageGraph, ranks: Ranks = ALONE) -> Table:
        """Encodes every node with its full neighbourhood, layer by layer, in blocks of rows (evaluation mode).

        Two layers are held at a time, on the device where they fit, and what a block needs. Several ranks share the
        rows of every layer, and all get the whole.
        """
        x, pointers = graph.fetched_features, graph.adjacency.row_ptr
        for layer, (convolution, finish) in enumerate(zip(self.convolutions, self.finishes, strict=True)):
            assert isinstance(convolution, Convolution)
            x = encode_layer(convolution, finish, graph, pointers, x, layer > 0, ranks)
        return x


class TailEncoder(nn.Module):
    """The MLP over pre-encoded features: a branch shared with the head GNN, and a residual branch.

    Args:
        encoder: convolution of the shared branch, used where it has weights of its own.
        knowledge_transfer: the shared branch uses the head's convolutions; else its own ("w/o KT").
        residual: add the residual branch Δ; else V = Ṽ ("w/o Δ").
        pre_encoding: feed Â^L X; else X, and then X to the residual branch too ("w/o PE").
    """

    def __init__(
        self,
        encoder: str,
        in_dim: int,
        layers: int,
        style: LayerStyle,
        knowledge_transfer: bool = True,
        residual: bool = True,
        pre_encoding: bool = True,
    ) -> None:
        super().__init__()
        pairs = list(pairwise([in_dim] + [style.dim] * layers))
        self.pre_encoding = pre_encoding
        # V = unit rows of Ṽ + Δ: where there is a residual branch, its last layer adds the other branch.
        self.finishes = finishes(layers, style, unit_last=not residual)
        self.own = None if knowledge_transfer else nn.ModuleList(make_convolution(encoder, a, b) for a, b in pairs)
        self.residual_linears = nn.ModuleList(linear(a, b) for a, b in pairs) if residual else None
        self.residual_finishes = finishes(layers, style, unit_last=True) if residual else None

    def forward(
        self, graph: MessageGraph, nodes: Tensor | slice, shared: nn.ModuleList | None, count: Tensor | None = None
    ) -> Tensor:
        """Encodes nodes (numbers [C] or a slice); `shared` holds the head's convolutions.

        Where `count` is given, only so many of the nodes are real, and the others are padding.

        Returns:
            V [C, r] = unit rows of Ṽ + Δ (eq. 5).
        """
        convolutions = shared if self.own is None else self.own
        assert convolutions is not None
        h = rows_of(graph.pre_encoded if self.pre_encoding else graph.features, nodes)
        last = len(convolutions) - 1
        for layer, (convolution, finish) in enumerate(zip(convolutions, self.finishes, strict=True)):
            assert isinstance(convolution, Convolution)
            h = finish(convolution.product_on_itself(h), h if layer else None, count)
        if self.residual_linears is None or self.residual_finishes is None:
            return h
        d = graph.residual_of(nodes) if self.pre_encoding else rows_of(graph.features, nodes)
        for layer, (weights, finish) in enumerate(zip(self.residual_linears, self.residual_finishes, strict=True)):
            plus = h if layer == last else None
            d = finish(product_with(weights, d), d if layer else None, count, plus)
        return d

    @torch.no_grad()
    def encode_all(self, graph: MessageGraph, shared: nn.ModuleList | None, ranks: Ranks = ALONE) -> Table:
        """Encodes every node in blocks of rows (evaluation mode); only what they become is held for all.

        Several ranks share the rows, and all get the whole.
        """
        nodes, norm = graph.num_nodes, norm_of(self.finishes[0])
        dim = norm.alpha.numel()
        smooth = graph.pre_encoded if self.pre_encoding else graph.features
        bounds = ranks.spans(torch.arange(nodes + 1))
        own = slice(bounds[ranks.rank], bounds[ranks.rank + 1])
        size, of_graph = rows_at_once(smooth, dim), norm.statistics == "graph"
        whole = self._at_once(graph, own, shared, size, ranks) if of_graph else None
        if whole is not None and not ranks.several:
            return whole.to(smooth.dtype)
        out = new_table(nodes, dim, smooth, TAILS)
        if whole is not None:
            write_rows(out, own.start, whole)
        else:
            tail = self._settled(graph, shared, own, size, ranks) if of_graph else self
            fill(out, lambda rows: tail(graph, rows, shared), size, TAILS, own.start, own.stop)
        exchange_rows(ranks, out, bounds)
        return out

    def _at_once(
        self, graph: MessageGraph, own: slice, shared: nn.ModuleList | None, size: int, ranks: Ranks
    ) -> Tensor | None:
        """Encodes the rows `own` with statistics of all nodes in one go; None where memory does not do for it."""
        on_cpu = graph.device.type == "cpu"
        if own.stop - own.start > size * (SPARED_BLOCKS if on_cpu else 1):
            return None
        if ranks.several and not on_cpu:  # others hear of the statistics on the way, so it cannot be tried twice
            return None
        tail = deepcopy(self)
        for module in tail.modules():
            if isinstance(module, GraphNorm):
                module.ranks = ranks
        with suppress(torch.OutOfMemoryError):
            found: Tensor = tail(graph, own, shared)
            return found
        return None

    def _settled(
        self, graph: MessageGraph, shared: nn.ModuleList | None, own: slice, size: int, ranks: Ranks
    ) -> "TailEncoder":
        """Returns a copy that encodes any rows with the statistics of all nodes, found with so many rows at a time.

        They are found layer after layer. What earlier layers give is computed again, since keeping it for all nodes
        takes more memory than the whole result.
        """
        settled = deepcopy(self)
        convolutions = shared if self.own is None else self.own
        assert convolutions is not None
        products = [convolution.on_itself for convolution in convolutions if isinstance(convolution, Convolution)]
        x = graph.features
        smooth = graph.pre_encoded if self.pre_encoding else x
        settle_branch(products, settled.finishes, lambda rows: rows_of(smooth, rows), own, size, ranks)
        if self.residual_linears is not None and settled.residual_finishes is not None:

            def rough(rows: slice) -> Tensor:
                own = rows_of(x, rows)
                return own - rows_of(smooth, rows) if self.pre_encoding else own

            settle_branch(list(self.residual_linears), settled.residual_finishes, rough, own, size, ranks)
        return settled
