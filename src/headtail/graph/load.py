"""`load`: from whatever the user has to a Graph."""

from pathlib import Path
from typing import Any

from headtail.datasets.read import read
from headtail.errors import DataError
from headtail.given import is_packed
from headtail.graph.graph import Graph, build_graph
from headtail.graph.packed.graph import open_packed


def load(source: object, **options: Any) -> Graph:
    """Loads a graph.

    Args:
        source: the name of a bundled data set ("debian"), a file (CSV, TSV, Parquet, npz), a folder that
            `headtail data pack` wrote (mapped, not read), a `torch_geometric.data.Data`, a NetworkX graph, a SciPy
            sparse matrix, a pandas frame of links, or an array of links [2, E].
        **options: see `headtail.datasets.read`: features, nodes, text, directed, valid, test and column names.

    Raises:
        DataError: with what is wrong, where, and what to do.
    """
    if isinstance(source, str | Path) and is_packed(Path(source)):
        if options:
            raise DataError(f"{source} is packed with all that belongs to it; leave out {', '.join(sorted(options))}.")
        return open_packed(source)
    return build_graph(read(source, **options))
