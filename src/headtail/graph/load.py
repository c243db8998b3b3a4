"""`load`: from whatever the user has to a Graph."""

from typing import Any

from headtail import datasets
from headtail.graph.graph import Graph, build_graph


def load(source: object, **options: Any) -> Graph:
    """Loads a graph.

    Args:
        source: the name of a bundled data set ("debian"), a file (CSV, TSV, Parquet, npz), a
            `torch_geometric.data.Data`, a NetworkX graph, a SciPy sparse matrix, a pandas frame of links, or
            an array of links [2, E].
        **options: see `headtail.datasets.read`: features, nodes, text, directed, valid, test and column names.

    Raises:
        DataError: with what is wrong, where, and what to do.
    """
    return build_graph(datasets.read(source, **options))
