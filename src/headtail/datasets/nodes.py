"""What is said about nodes beside the links: a node table, features, text; checked against each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from headtail.datasets.arrays import Array
from headtail.datasets.columns import NodeFeatures, column_features
from headtail.datasets.features import FeatureSource, matrix_features, read_matrix, table_features
from headtail.datasets.ids import (
    Numbering,
    align_rows,
    as_ids,
    check_unique,
    number_by_rows,
    number_by_table,
    number_sorted,
)
from headtail.datasets.raw import Floats, Ints, RawGraph
from headtail.datasets.tables import Table, open_table, pick_column
from headtail.errors import DataError

TableSource: TypeAlias = str | Path | pd.DataFrame


@dataclass(frozen=True)
class NodeTable:
    """Node ids in the order of a table, and what to make features from: texts, or columns after their kind."""

    table: Table
    key: str
    ids: pd.Index
    texts: list[str] | None = None
    columns: Sequence[str] = ()
    named: bool = False

    def features(self, rows: Ints | None = None) -> NodeFeatures:
        """Makes features of texts or columns, in the order of the table or of its `rows`."""
        if self.texts is not None:
            return NodeFeatures(_from_texts(self.texts if rows is None else [self.texts[row] for row in rows]))
        made = column_features(self.table, self.key, self.columns, self.named)
        return made if rows is None or made.features is None else replace(made, features=made.features[rows])


def read_nodes(
    source: TableSource,
    node_column: str | None = None,
    text: str | Sequence[str] | None = None,
    columns: str | Sequence[str] | None = None,
) -> NodeTable:
    """Reads a node table: its id column (the first by default), and the columns of text to join.

    Without `text` features can be made of `columns`, by default all of them.
    """
    table = open_table(source)
    key = pick_column(table, node_column, "node_column")
    text_columns = [pick_column(table, name, "text") for name in _names(text)]
    chosen = [] if text is not None else table.columns
    if columns is not None:
        chosen = [pick_column(table, name, "columns") for name in dict.fromkeys(_names(columns))]
    values, *parts = table.load([key, *text_columns])
    ids = as_ids(table, key, values)
    check_unique(table, key, ids)
    if not text_columns:
        return NodeTable(table, key, ids, columns=chosen, named=columns is not None)
    # Imported here: scikit-learn takes a second to import, and most graphs come without text.
    from headtail.datasets.text import join_texts

    frame = pd.DataFrame({name: part.to_pandas() for name, part in zip(text_columns, parts, strict=True)})
    return NodeTable(table, key, ids, join_texts(frame))


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or [])


class NodeFacts:
    """The node table and the features that accompany links, put to use when nodes are numbered."""

    def __init__(
        self,
        features: FeatureSource | None = None,
        nodes: TableSource | None = None,
        text: str | Sequence[str] | None = None,
        node_column: str | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> None:
        for option, value in (("text", text), ("columns", columns)):
            if value is not None and nodes is None:
                raise DataError(
                    f"{option} names a column of the node table, but there is none; give nodes (--nodes) with it"
                )
            if value is not None and features is not None:
                raise DataError(f"features and {option} are both given; leave one out, features come from one source")
        if text is not None and columns is not None:
            raise DataError("text and columns are both given; leave one out: columns finds out by itself what is text")
        self._matrix: tuple[Array, str] | None = None
        self._table: TableSource | None = None
        if features is not None:
            self._matrix = read_matrix(features)
        if features is not None and self._matrix is None:
            assert isinstance(features, str | Path | pd.DataFrame)
            self._table = features
        if node_column is not None and nodes is None and self._table is None:
            raise DataError("node_column names the id column of a node or feature table, and there is none")
        self._node_column = node_column
        # Features come from one source: beside given ones the node table only lists the nodes.
        columns = columns if features is None else []
        self._nodes = None if nodes is None else read_nodes(nodes, node_column, text, columns)

    @property
    def matrix_rows(self) -> int:
        """Rows of the bare feature matrix, 0 where there is none."""
        return 0 if self._matrix is None else len(self._matrix[0])

    def number(self, columns: Sequence[pd.Index], source: str) -> Numbering:
        """Numbers the ids of links by the node table, else by rows of the matrix, else in sorted order."""
        if self._nodes is not None:
            return number_by_table(columns, self._nodes.ids, self._nodes.table.source)
        if self._matrix is not None:
            return number_by_rows(columns, self.matrix_rows, source, self._matrix[1])
        return number_sorted(columns)

    @property
    def list_nodes(self) -> bool:
        """Whether these facts say which nodes there are, also those without links."""
        return not (self._nodes is None and self._table is None and self._matrix is None)

    def features(self, num_nodes: int, names: pd.Index | None) -> NodeFeatures:
        """Returns the features of nodes that `number` has numbered."""
        if self._matrix is not None:
            return NodeFeatures(matrix_features(*self._matrix, num_nodes, names))
        if self._table is not None:
            return NodeFeatures(table_features(self._table, num_nodes, names, self._node_column))
        return NodeFeatures() if self._nodes is None else self._nodes.features()

    def added_to(self, graph: RawGraph) -> RawGraph:
        """Returns a graph whose nodes are known already with features from here, if there are any."""
        if self._nodes is None:
            made = self.features(graph.num_nodes, graph.names)
            return graph if made.features is None else replace(graph, features=made.features)
        names: pd.Index = pd.RangeIndex(graph.num_nodes) if graph.names is None else graph.names
        made = self._nodes.features(align_rows(self._nodes.table, self._nodes.ids, names))
        if made.features is None:
            raise DataError(
                f"the nodes of {graph.source} are known without the node table {self._nodes.table.source}, and "
                f"no features come from its columns{f' ({made.note})' if made.note else ''}; leave out nodes"
            )
        return replace(graph, features=made.features, features_note=made.note)


def _from_texts(texts: Sequence[str]) -> Floats:
    from headtail.datasets.text import text_features

    return text_features(texts)
