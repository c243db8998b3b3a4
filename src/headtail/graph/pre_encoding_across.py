"""Pre-encoding by several ranks: each computes a range of columns, then all give theirs to each other.

Columns of Â^L X depend on the same columns of X alone, so nobody waits for anybody before the exchange. Ranks may keep
the result in different places, one in memory and another, with less of it, on disk: what they exchange is the same.
"""

from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor

from headtail.graph.csr import CSR
from headtail.graph.exchange import exchange_columns
from headtail.graph.pre_encoding import WHAT, encode_columns, keeping, kept_now, open_kept, pre_encode, smooth
from headtail.graph.scratch import scratch_table
from headtail.graph.tables import HostTable, Table, columns_into, new_table
from headtail.ranks import Ranks, machine, number_of


def pre_encode_across(
    ranks: Ranks, adjacency: CSR, features: Table, layers: int, on_disk: bool = False, kept: Path | None = None
) -> Table:
    """Returns Â^L X, the same on all ranks, bit for bit.

    Args:
        adjacency, features, layers: the same on all ranks.
        on_disk: the result is to lie in a file. Ranks may differ in this, and in the next.
        kept: that file, to be found again. One rank of every machine writes it, for all that look for it there.
    """
    rows, columns = features.shape
    if not on_disk or isinstance(features, HostTable):
        kept = None
    found = None if kept is None else open_kept(kept, rows, columns)
    founds, writes = _roles(ranks, kept, found is not None)
    if found is not None and founds.all():
        return found
    # Ranks that have it give it to the others, who then have nothing to compute.
    gives = founds if founds.any() else torch.ones_like(founds)
    bounds = [0, *(gives.cumsum(0) * columns // gives.sum()).tolist()]
    with keeping(kept, rows, columns) if kept is not None and writes else nullcontext() as file:
        if found is None:
            out, part = _encode(ranks, adjacency, features, layers, bounds, on_disk, kept, file)
        else:
            out, part = None, found[:, bounds[ranks.rank] : bounds[ranks.rank + 1]]
        exchange_columns(ranks, part, bounds, out)
    ranks.sum(torch.zeros(()))  # before it, a file may not have its name yet
    if kept is not None:
        return kept_now(kept, rows, columns)
    assert out is not None
    return out


def _roles(ranks: Ranks, kept: Path | None, found: bool) -> tuple[Tensor, bool]:
    """Returns int64 [size], 1 for ranks that have found their file, and whether this one writes what it has not."""
    file = f"none of {ranks}"
    if kept is not None:
        folder = kept.parent.stat()
        file = f"{machine()} {folder.st_dev} {folder.st_ino} {kept.name}"
    founds, files = ranks.each(torch.tensor([found, number_of(file)])).unbind(dim=1)
    first = ((founds == 0) & (files == files[ranks.rank])).int().argmax()
    return founds, not found and int(first) == ranks.rank


def _encode(
    ranks: Ranks,
    adjacency: CSR,
    features: Table,
    layers: int,
    bounds: list[int],
    on_disk: bool,
    kept: Path | None,
    file: Tensor | None,
) -> tuple[Table | None, Table]:
    """Computes this rank's columns.

    Returns:
        A table [N, d] for the columns of all ranks, None where another rank writes them, and this rank's columns.
    """
    (rows, columns), first, last = features.shape, bounds[ranks.rank], bounds[ranks.rank + 1]
    if isinstance(features, HostTable):
        out = HostTable.empty(rows, columns, features.dtype, features.device, features.on_disk)
        columns_into(out, features, lambda x: smooth(adjacency, x, layers), WHAT, first, last)
        return out, out.values[:, first:last]
    own = features[:, first:last]
    if not on_disk:
        part = pre_encode(adjacency, own.contiguous(), layers) if first < last else own
        return new_table(rows, columns, features, WHAT), part
    table = scratch_table(rows, columns, features.dtype) if kept is None else file
    mapped = scratch_table(rows, last - first, features.dtype) if table is None else table[:, first:last]
    encode_columns(adjacency, own, layers, mapped, sharing=ranks.beside)
    return table, mapped
