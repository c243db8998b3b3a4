"""A packed graph, opened: its arrays are mapped, so nothing is read before it is needed."""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from headtail.errors import DataError
from headtail.graph.graph import Cleaning, Graph, HeldOut
from headtail.graph.mapped import MappedCSR, MappedView
from headtail.graph.names import NodeNames
from headtail.graph.packed.manifest import NAMES_FILE, Manifest, map_array, read_manifest
from headtail.graph.scratch import read_only

_CHECKED_ENTRIES = 2**24


@dataclass(frozen=True, kw_only=True)
class PackedGraph(Graph):
    """A graph whose links, features and rows lie in the files of a folder; it brings its own split.

    Attributes:
        folder, digest: where it lies, and a hash of what it holds.
        view: the training links.
        known: every link, also those held out, head → tail.
        dropped: training links that were left out because they are held out too.
    """

    folder: Path
    digest: str
    view: MappedView
    known: MappedCSR
    strategy: str
    dropped: int

    def encoded_file(self, normalisation: str, layers: int) -> Path | None:
        """Returns where Â^L X of the training links is kept, for all runs; None where nothing may be written there."""
        return self.folder / f"encoded-{normalisation}-{layers}.npy" if os.access(self.folder, os.W_OK) else None


def open_packed(folder: str | Path) -> PackedGraph:
    """Opens what `headtail data pack` wrote.

    Raises:
        DataError: it is not whole, or not what it says.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    arrays = {name: _tensor(folder, name, manifest) for name in manifest.arrays}
    nodes = manifest.num_nodes
    links = arrays["links"]
    for name in ("links", "valid", "test"):
        _check_nodes(folder, name, arrays[name], nodes)

    def rows(name: str, owners: Tensor | None = None) -> MappedCSR:
        row_ptr, col = arrays[f"{name}_row_ptr"], arrays.get(f"{name}_col", links[1])
        _check_rows(folder, name, row_ptr, col, nodes)
        return MappedCSR(row_ptr, col, nodes, owners=owners)

    train = rows("train", links[0] if manifest.directed else None)
    times = arrays.get("times")
    view = MappedView(
        num_nodes=nodes,
        directed=manifest.directed,
        links=links,
        times=times if manifest.strategy in ("time", "given") else None,
        train_rows=train,
        message_rows=rows("message"),
    )
    return PackedGraph(
        source=str(folder),
        num_nodes=nodes,
        directed=manifest.directed,
        links=links,
        names=NodeNames(nodes, None if manifest.names_digest is None else partial(_read_names, folder, nodes)),
        cleaning=Cleaning(manifest.self_loops, manifest.duplicates),
        times=times,
        features=arrays.get("features"),
        valid=HeldOut(arrays["valid"]),
        test=HeldOut(arrays["test"]),
        folder=folder.resolve(),
        digest=manifest.digest,
        view=view,
        known=rows("known"),
        strategy=manifest.strategy,
        dropped=manifest.dropped,
    )


def _tensor(folder: Path, name: str, manifest: Manifest) -> Tensor:
    array = map_array(folder, name, manifest.arrays[name])
    if name in ("valid", "test"):  # small, and free to be written to
        return torch.from_numpy(np.array(array))
    return read_only(array)


def _check_nodes(folder: Path, name: str, nodes: Tensor, count: int) -> None:
    """Refuses numbers of nodes that do not exist: reading features by them would read something else."""
    for part in torch.split(nodes.reshape(-1), _CHECKED_ENTRIES):
        low, high = part.aminmax()
        if not 0 <= int(low) <= int(high) < count:
            raise _wrong(folder, f"{name} names the nodes {int(low)} to {int(high)} of {count:,}")


def _check_rows(folder: Path, name: str, row_ptr: Tensor, col: Tensor, nodes: int) -> None:
    if int(row_ptr[0]) != 0 or int(row_ptr[-1]) != col.numel() or bool((row_ptr.diff() < 0).any()):
        raise _wrong(folder, f"the rows of {name} do not fit its {col.numel():,} entries")
    _check_nodes(folder, f"{name}_col", col, nodes)


def _read_names(folder: Path, count: int) -> pd.Index:
    file = folder / NAMES_FILE
    if file.is_symlink() or not file.is_file():
        raise _wrong(folder, f"{file.name} is missing or no plain file")
    try:
        column = pq.read_table(file, columns=["name"])["name"]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise _wrong(folder, f"{file.name} is damaged ({error})") from error
    if len(column) != count or column.null_count:
        raise _wrong(folder, f"{file.name} names {len(column) - column.null_count:,} of {count:,} nodes")
    names: pd.Index = pd.Index(column.to_pandas())
    return names


def _wrong(folder: Path, what: str) -> DataError:
    return DataError(f"{folder} is damaged: {what}; pack the links again.")
