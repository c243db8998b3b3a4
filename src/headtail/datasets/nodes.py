"""What is said about nodes beside the links: a node table, features, text; checked against each other."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from headtail.datasets.arrays import Array
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
from headtail.datasets.raw import Floats, RawGraph
from headtail.datasets.tables import Table, open_table, pick_column
from headtail.errors import DataError

TableSource: TypeAlias = str | Path | pd.DataFrame


@dataclass(frozen=True)
class NodeTable:
    """Node ids in the order of a table, and the text of each node where text was asked for."""

    table: Table
    ids: pd.Index
    texts: list[str] | None = None


def read_nodes(
    source: TableSource, node_column: str | None = None, text: str | Sequence[str] | None = None
) -> NodeTable:
    """Reads a node table: its id column (the first by default) and the columns of text to join."""
    table = open_table(source)
    key = pick_column(table, node_column, "node_column")
    wanted = [text] if isinstance(text, str) else list(text or [])
    columns = [pick_column(table, name, "text") for name in wanted]
    values, *parts = table.load([key, *columns])
    ids = as_ids(table, key, values)
    check_unique(table, key, ids)
    if not columns:
        return NodeTable(table, ids)
    # Imported here: scikit-learn takes a second to import, and most graphs come without text.
    from headtail.datasets.text import join_texts

    frame = pd.DataFrame({name: part.to_pandas() for name, part in zip(columns, parts, strict=True)})
    return NodeTable(table, ids, join_texts(frame))


class NodeFacts:
    """The node table and the features that accompany links, put to use when nodes are numbered."""

    def __init__(
        self,
        features: FeatureSource | None = None,
        nodes: TableSource | None = None,
        text: str | Sequence[str] | None = None,
        node_column: str | None = None,
    ) -> None:
        if text is not None and nodes is None:
            raise DataError("text names a column of the node table, but there is none; give nodes (--nodes) with it")
        if text is not None and features is not None:
            raise DataError("features and text are both given; leave one out, features come from one source")
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
        self._nodes = None if nodes is None else read_nodes(nodes, node_column, text)

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

    def features(self, num_nodes: int, names: pd.Index | None) -> Floats | None:
        """Returns the features of nodes that `number` has numbered."""
        if self._matrix is not None:
            return matrix_features(*self._matrix, num_nodes, names)
        if self._table is not None:
            return table_features(self._table, num_nodes, names, self._node_column)
        if self._nodes is not None and self._nodes.texts is not None:
            return _from_texts(self._nodes.texts)
        return None

    def added_to(self, graph: RawGraph) -> RawGraph:
        """Returns a graph whose nodes are known already with features from here, if there are any."""
        if self._nodes is None:
            features = self.features(graph.num_nodes, graph.names)
            return graph if features is None else replace(graph, features=features)
        if self._nodes.texts is None:
            raise DataError(
                f"the nodes of {graph.source} are known without the node table {self._nodes.table.source}; "
                "name its text column, or leave out nodes"
            )
        names: pd.Index = pd.RangeIndex(graph.num_nodes) if graph.names is None else graph.names
        rows = align_rows(self._nodes.table, self._nodes.ids, names)
        return replace(graph, features=_from_texts([self._nodes.texts[row] for row in rows]))


def _from_texts(texts: Sequence[str]) -> Floats:
    from headtail.datasets.text import text_features

    return text_features(texts)
