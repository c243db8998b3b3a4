"""All nodes in blocks of rows: a layer of the head GNN, and the norms of a branch of the tail MLP."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn

from headtail.graph.exchange import exchange_rows
from headtail.graph.message import MessageGraph
from headtail.graph.tables import HostTable, Table, fill, new_table, rows_of, sources_of, write_rows
from headtail.kernels.blocks import block_size, in_blocks
from headtail.memory import available_bytes, hand_back_surplus
from headtail.nn.convolutions import Convolution, PygConvolution
from headtail.nn.norm import GraphNorm
from headtail.nn.statistics import ColumnMoments
from headtail.ranks import ALONE, Ranks

# On a CPU, all nodes are encoded in blocks of rows that hold about this many elements; on a GPU, in what fits.
BLOCK_ELEMENTS = 2**26
# What most of a block is, whatever the precision that rows are kept in.
WORKED_IN = torch.float32
# Blocks that read a table on disk may take this share of the memory that is there: each reads most of its pages, so
# there are to be few.
DISK_SHARE = 0.4
# What a block holds, about: so many copies of each row; of each entry's message, where messages are written down;
# and numbers per entry where they are not.
ROW_COPIES, ENTRY_COPIES, ENTRY_NUMBERS = 6, 4, 8
# Tails that are normalised by statistics of all nodes cost several times the products in blocks. A CPU, which has
# memory but is slow, does as many as this many blocks at once instead.
SPARED_BLOCKS = 16
# A row's products with weights take about as long as summing an entry for every so many columns of the output.
COLUMNS_PER_ENTRY = 4
HEADS, TAILS = "encoding all nodes as heads", "encoding all nodes as tails"

Product = Callable[[Tensor], Tensor]


def encode_layer(
    convolution: Convolution,
    finish: nn.Module,
    graph: MessageGraph,
    pointers: Tensor,
    x: Table,
    residual: bool,
    ranks: Ranks = ALONE,
) -> Table:
    """Returns a layer's output for all nodes, in evaluation mode.

    Each of several ranks encodes a range of rows, and gets those of the others.

    Args:
        convolution, finish: the layer.
        graph: who is a neighbour of whom; `pointers` are its row pointers.
        x: the layer's input [N, in]; added to what comes out where `residual`.
        ranks: who encodes; all must have the same input.
    """
    nodes, costs = graph.num_nodes, row_costs(convolution, pointers, fetched=isinstance(x, HostTable))
    on_disk = isinstance(x, HostTable) and x.on_disk
    most = int(DISK_SHARE * available_bytes()) // WORKED_IN.itemsize if on_disk else 0
    size = block_size(graph.device, WORKED_IN.itemsize, max(BLOCK_ELEMENTS, most))
    h = new_table(nodes, convolution.out_dim, x, HEADS)
    of_graph = norm_of(finish).statistics == "graph"  # not known before all rows are
    rows_before = torch.arange(nodes + 1, device=pointers.device)
    bounds = ranks.spans(pointers + rows_before * -(-convolution.out_dim // COLUMNS_PER_ENTRY))
    begin, end = bounds[ranks.rank], bounds[ranks.rank + 1]

    def convolve(first: int, size: int) -> int:
        last = min(last_row(costs, first, size), end)
        targets = rows_of(x, slice(first, last))
        sources, adjacency = sources_of(x, graph.adjacency.block(first, last))
        rows: Tensor = convolution(sources, targets, adjacency)
        write_rows(h, first, rows if of_graph else finish(rows, targets if residual else None))
        hand_back_surplus()
        return last

    in_blocks(convolve, end, size, HEADS, begin)
    if of_graph:
        _finish_all(finish, h, x if residual else None, begin, end, ranks)
    exchange_rows(ranks, h, bounds)
    return h


def _finish_all(finish: nn.Module, h: Table, previous: Table | None, begin: int, end: int, ranks: Ranks) -> None:
    """Finishes rows begin … end − 1 of h, which are this rank's, in place with the statistics of all."""
    moments, settled, size = ColumnMoments(), deepcopy(finish), rows_at_once(h, h.shape[1])

    def look(first: int, size: int) -> int:
        last = min(first + size, end)
        moments.add(rows_of(h, slice(first, last)))
        return last

    def finished(rows: slice) -> Tensor:
        out: Tensor = settled(rows_of(h, rows), None if previous is None else rows_of(previous, rows))
        return out

    in_blocks(look, end, size, HEADS, begin)
    moments.settle(norm_of(settled), ranks)
    fill(h, finished, size, HEADS, begin, end)


def add_rows(u: Table, v: Table, what: str) -> None:
    """Adds the rows of v to those of u [N, r], in place."""
    fill(u, lambda rows: rows_of(u, rows) + rows_of(v, rows), rows_at_once(u, u.shape[1]), what)


def row_costs(convolution: Convolution, pointers: Tensor, fetched: bool = False) -> Tensor:
    """Returns int64 [N + 1]: about how many elements a convolution and its finish hold for the first i rows.

    Where neighbours are `fetched` from host memory, they count as well.
    """
    width = convolution.out_dim
    per_row = ROW_COPIES * max(convolution.in_dim, width)
    # Convolutions of PyTorch Geometric write the message of every entry down, several times; ours sum on the way.
    per_entry = ENTRY_COPIES * width if isinstance(convolution, PygConvolution) else ENTRY_NUMBERS
    if fetched:
        per_entry += convolution.in_dim + ENTRY_NUMBERS
    return pointers * per_entry + torch.arange(pointers.numel(), device=pointers.device) * per_row


def last_row(costs: Tensor, first: int, size: int) -> int:
    """Returns the end of the rows from `first` on that cost at most `size` together, but one row at least."""
    last = int(torch.searchsorted(costs, int(costs[first]) + size, right=True)) - 1
    return min(max(last, first + 1), costs.numel() - 1)


def settle_branch(
    products: Sequence[Product],
    finishes: nn.ModuleList,
    inputs: Callable[[slice], Tensor],
    own: slice,
    size: int,
    ranks: Ranks,
) -> None:
    """Gives the norms of a branch of the tail encoder the statistics of all nodes, layer after layer.

    Of several ranks, each looks at the rows `own`, so many at a time.
    """

    def look(moments: ColumnMoments, depth: int, first: int, size: int) -> int:
        last: int = min(first + size, own.stop)
        h = inputs(slice(first, last))
        for layer in range(depth):
            h = finishes[layer](products[layer](h), h if layer else None)
        moments.add(products[depth](h))
        return last

    for depth, finish in enumerate(finishes):
        moments = ColumnMoments()
        in_blocks(partial(look, moments, depth), own.stop, size, TAILS, own.start)
        moments.settle(norm_of(finish), ranks)


def rows_at_once(x: Table, dim: int) -> int:
    """Returns how many rows of x that become `dim` columns are worked on at a time."""
    elements = block_size(x.device, WORKED_IN.itemsize, BLOCK_ELEMENTS)
    return max(1, elements // (ROW_COPIES * max(x.shape[1], dim)))


def norm_of(finish: nn.Module) -> GraphNorm:
    """Returns the norm of a `Finish`."""
    norm = finish.norm
    assert isinstance(norm, GraphNorm)
    return norm
