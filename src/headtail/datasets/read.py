"""Reads a graph from whatever holds it: a name, a file, or an object of another library."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from headtail.datasets.adapters import adapter_of
from headtail.datasets.catalog import DATASETS
from headtail.datasets.edges import LinkColumns, LinkTable, read_links
from headtail.datasets.features import FeatureSource
from headtail.datasets.nodes import NodeFacts, TableSource
from headtail.datasets.npz import is_split_file, read_npz
from headtail.datasets.ogb import LAYOUTS
from headtail.datasets.raw import RawGraph, RawSplit
from headtail.errors import DataError
from headtail.given import check_data, check_split


def read(
    source: object,
    *,
    features: FeatureSource | None = None,
    nodes: TableSource | None = None,
    text: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    time_column: str | None = None,
    node_column: str | None = None,
    directed: bool | None = None,
    valid: TableSource | None = None,
    test: TableSource | None = None,
    root: str | Path | None = None,
    download: bool = False,
) -> RawGraph:
    """Reads a graph.

    Args:
        source: The name of a data set; a file of links (.csv, .tsv, .txt, .edges, .parquet, text also with
            .gz or .xz) or of a whole split (.npz); a pandas DataFrame of links; a PyTorch Geometric `Data`; a
            NetworkX graph; a SciPy sparse matrix; an array [2, E].
        features: Node features: .npy, .npz or an array [N, d] in node order; .csv, .tsv, .parquet or a
            DataFrame with an id column, in any order.
        nodes: A table of nodes in the order they shall be numbered in; nodes without links are kept. Unless
            `features` are given, features are made of its columns, each after its kind: text, categories, numbers.
        text: Column or columns of `nodes` to make features from as text, and from no others.
        columns: Columns of `nodes` to make features from, by default all that tell something; [] for none.
        source_column: Column of the heads, by default the first.
        target_column: Column of the tails, by default the second.
        time_column: Column that dates the links.
        node_column: Id column of `nodes` and of a feature table, by default the first.
        directed: Whether links have a direction. By default what the source says; links of files, tables and
            arrays have one.
        valid: Validation links of a given split, in the form of `source`, which then holds training links.
        test: Test links of a given split.
        root: Folder that holds OGB's data sets, by default "dataset", or the folder of the named one itself.
        download: Fetch OGB's data set where it is missing; needs the package `ogb` and a network.

    Raises:
        DataError: If something cannot be read or does not fit, or an option does not apply to `source`.
    """
    facts = NodeFacts(features, nodes, text, node_column, columns)
    links = _as_link_source(source)
    ogb_options = {name: value for name, value in (("root", root), ("download", download)) if value}
    if ogb_options and not (isinstance(source, str) and source in LAYOUTS):
        raise DataError(f"{' and '.join(ogb_options)} apply to OGB's data sets only: {', '.join(LAYOUTS)}; leave out")
    if links is not None:
        parts = [links]
        check_split(valid, test)
        if valid is not None and test is not None:
            parts += [valid, test]
        return _from_tables(parts, LinkColumns(source_column, target_column, time_column), facts, directed)
    unfit = {
        "source_column": source_column,
        "target_column": target_column,
        "time_column": time_column,
        "valid": valid,
        "test": test,
    }
    for name, value in unfit.items():
        if value is not None:
            what = repr(str(source)) if isinstance(source, str | Path) else f"a {type(source).__name__}"
            raise DataError(f"{name} applies to link files and DataFrames, not to {what}; leave it out")
    graph = _whole_graph(source, directed, ogb_options)
    if graph.source == "array" and facts.matrix_rows > graph.num_nodes:
        # An array of links says nothing of nodes without links, the matrix does.
        graph = replace(graph, num_nodes=facts.matrix_rows)
    return facts.added_to(graph)


def _as_link_source(source: object) -> TableSource | None:
    """Returns `source` if it is a table of links; a name that is nothing at all is refused here."""
    if isinstance(source, pd.DataFrame):
        return source
    if not isinstance(source, str | Path) or (isinstance(source, str) and source in DATASETS):
        return None
    path = Path(source)
    check_data(source, DATASETS)
    return None if path.suffix.lower() == ".npz" else path


def _whole_graph(source: object, directed: bool | None, loader_options: Mapping[str, object]) -> RawGraph:
    """Returns a graph whose source says all about its links."""
    adapter = adapter_of(source)
    if adapter is not None:
        return adapter(source, directed)
    if not isinstance(source, str | Path):
        raise DataError(
            f"a graph cannot be read from {type(source).__name__}; give a name, a path, a DataFrame, a "
            "PyTorch Geometric Data, a NetworkX graph, a SciPy sparse matrix or an array [2, E]"
        )
    if isinstance(source, str) and source in DATASETS:
        graph = DATASETS[source](**loader_options)
    elif is_split_file(Path(source)):
        graph = read_npz(source)
    else:
        raise DataError(
            f"{source} holds no graph: arrays num_nodes, directed and train are expected; if it holds "
            "features, give the links as source and this file as features"
        )
    return graph if directed is None else replace(graph, directed=directed)


def _from_tables(
    sources: Sequence[TableSource], columns: LinkColumns, facts: NodeFacts, directed: bool | None
) -> RawGraph:
    """Reads training links and, where given, validation and test links; all share one numbering."""
    tables = [read_links(source, columns) for source in sources]
    if not facts.list_nodes:
        for table in tables[1:]:
            _refuse_strangers(tables[0], table)
    ids = [end for table in tables for end in (table.heads, table.tails)]
    numbering = facts.number(ids, tables[0].source)
    numbers = iter(numbering.numbers)
    train, *held_out = [np.stack(pair) for pair in zip(numbers, numbers, strict=True)]
    made = facts.features(numbering.num_nodes, numbering.names)
    return RawGraph(
        source=tables[0].source,
        num_nodes=numbering.num_nodes,
        links=train,
        directed=directed is not False,
        names=numbering.names,
        times=tables[0].times,
        features=made.features,
        split=RawSplit(*held_out) if held_out else None,
        features_note=made.note,
    )


def _refuse_strangers(train: LinkTable, held_out: LinkTable) -> None:
    """Refuses held-out links whose nodes the training links lack, unless a node table vouches for them."""
    known = pd.Index(pd.concat([pd.Series(train.heads), pd.Series(train.tails)]).astype(str).unique())
    ends = pd.concat([pd.Series(held_out.heads), pd.Series(held_out.tails)]).astype(str)
    strangers = ends[~ends.isin(known)].unique()
    if len(strangers):
        raise DataError(
            f"{held_out.source}: {len(strangers):,} of its nodes are not in {train.source}, the first is "
            f"{str(strangers[0])!r}; remove their links, or give a node table (nodes, --nodes) that lists them"
        )
