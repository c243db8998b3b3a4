"""How ids become node numbers, with and without a node table."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.ids import number_by_rows, number_by_table, number_sorted
from headtail.datasets.nodes import NodeFacts, read_nodes
from headtail.errors import DataError


def ids(*values: object) -> pd.Index:
    return pd.Index(list(values))


def test_sorted_order_does_not_depend_on_the_order_of_links() -> None:
    one = number_sorted([ids("c", "a"), ids("b", "c")])
    two = number_sorted([ids("a", "c"), ids("c", "b")])
    assert one.names is not None
    assert two.names is not None
    assert one.names.tolist() == two.names.tolist() == ["a", "b", "c"]
    assert [part.tolist() for part in one.numbers] == [[2, 0], [1, 2]]


def test_integers_sort_as_numbers_and_mixed_columns_as_text() -> None:
    numbered = number_sorted([ids(10, 9), ids(9, 11)])
    assert numbered.names is not None
    assert numbered.names.tolist() == [9, 10, 11]
    mixed = number_sorted([ids(10, 9), ids("9", "x")])
    assert mixed.names is not None
    assert mixed.names.tolist() == ["10", "9", "x"]


def test_ids_that_are_numbers_already_need_no_names() -> None:
    numbered = number_sorted([ids(2, 0), ids(1, 1)])
    assert numbered.names is None
    assert numbered.num_nodes == 3


def test_table_gives_order_and_isolated_nodes() -> None:
    numbered = number_by_table([ids("b"), ids("a")], ids("z", "b", "a"), "nodes.csv")
    assert numbered.num_nodes == 3
    assert [part.tolist() for part in numbered.numbers] == [[1], [2]]
    assert number_by_table([ids(0), ids(1)], ids(0, 1, 2), "nodes.csv").names is None


def test_nodes_missing_from_the_table() -> None:
    with pytest.raises(DataError, match=r"nodes\.csv lacks 2 nodes that occur in links, first 'x', 'y'"):
        number_by_table([ids("x", "a"), ids("y", "x")], ids("a"), "nodes.csv")


def test_row_numbers() -> None:
    numbered = number_by_rows([ids(0, 4), ids(2, 0)], 7, "links.csv", "x.npy")
    assert (numbered.num_nodes, numbered.names) == (7, None)
    with pytest.raises(DataError, match=r"links\.csv links node 7, but x\.npy has 7 rows.*0 … 6"):
        number_by_rows([ids(0), ids(7)], 7, "links.csv", "x.npy")
    with pytest.raises(DataError, match=r"ids such as 'a', and x\.npy does not say.*nodes"):
        number_by_rows([ids("a"), ids("b")], 7, "links.csv", "x.npy")


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_node_table_files(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"id": ["b", "a"], "kind": ["x", "y"], "about": ["two words", None]})
    path = tmp_path / f"nodes{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="," if suffix == ".csv" else "\t")
    nodes = read_nodes(path, text=["kind", "about"])
    assert nodes.ids.tolist() == ["b", "a"]
    assert nodes.texts == ["x two words", "y "]
    assert read_nodes(path, node_column="kind").ids.tolist() == ["x", "y"]


def test_a_bare_list_of_integers_is_a_node_table(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("3\n1\n2\n")
    assert read_nodes(tmp_path / "nodes.csv").ids.tolist() == [3, 1, 2]


def test_quotation_marks_are_text_in_tsv(tmp_path: Path) -> None:
    (tmp_path / "nodes.tsv").write_text('id\tabout\na\t"quoted" word\nb\tit\'s 5" wide\n')
    assert read_nodes(tmp_path / "nodes.tsv", text="about").texts == ['"quoted" word', "it's 5\" wide"]


def test_unusable_node_tables(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("id,about\na,x\nb,y\na,z\n")
    with pytest.raises(DataError, match=r"nodes\.csv, line 4: id 'a' in column 'id' occurs a second time"):
        read_nodes(path)
    with pytest.raises(DataError, match=r"no column 'abuot' \(text\); did you mean 'about'"):
        read_nodes(path, text="abuot")
    with pytest.raises(DataError, match=r"no column 'abuot' \(columns\); did you mean 'about'"):
        read_nodes(path, columns=["id", "abuot"])
    with pytest.raises(DataError, match=r"no column 'name' \(node_column\)"):
        read_nodes(path, node_column="name")


def test_options_that_contradict_each_other() -> None:
    table = pd.DataFrame({"id": ["a"], "about": ["x"]})
    with pytest.raises(DataError, match="give nodes"):
        NodeFacts(text="about")
    with pytest.raises(DataError, match="leave one out"):
        NodeFacts(features=np.ones((1, 1)), nodes=table, text="about")
    with pytest.raises(DataError, match="columns names a column of the node table"):
        NodeFacts(columns="about")
    with pytest.raises(DataError, match="features and columns are both given"):
        NodeFacts(features=np.ones((1, 1)), nodes=table, columns="about")
    with pytest.raises(DataError, match="text and columns are both given"):
        NodeFacts(nodes=table, text="about", columns="about")
    with pytest.raises(DataError, match="node_column names the id column"):
        NodeFacts(node_column="id")
