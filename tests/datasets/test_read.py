"""The one door: names, files, tables, splits, features, and options that do not apply."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.catalog import DATASETS
from headtail.datasets.read import read
from headtail.errors import DataError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "links.csv").write_text("head,tail,year\nb,a,2001\nc,b,2002\n")
    (tmp_path / "valid.csv").write_text("head,tail,year\na,c,2003\n")
    (tmp_path / "test.csv").write_text("head,tail,year\nd,a,2004\n")
    (tmp_path / "nodes.csv").write_text("id,about\nz,lonely node\nd,red\nc,red\nb,blue\na,blue\n")
    (tmp_path / "numbers.txt").write_text("0 1\n1 3\n")
    np.save(tmp_path / "x.npy", np.eye(5))
    np.savez(
        tmp_path / "split.npz",
        num_nodes=3,
        directed=False,
        train=np.array([[0, 1], [1, 2]]),
        valid=np.array([[0], [2]]),
        test=np.array([[0], [2]]),
    )
    return tmp_path


def test_file(folder: Path) -> None:
    graph = read(str(folder / "links.csv"), time_column="year")
    assert graph.source.endswith("links.csv")
    assert graph.directed
    assert graph.names is not None
    assert graph.names.tolist() == ["a", "b", "c"]
    assert graph.links.tolist() == [[1, 2], [0, 1]]
    assert graph.times is not None
    assert graph.times.tolist() == [2001, 2002]
    assert read(folder / "links.csv", directed=False).directed is False


def test_held_out_nodes_that_the_graph_lacks_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"test\.csv: 1 of its nodes are not in .*links\.csv, the first is 'd'"):
        read(folder / "links.csv", valid=folder / "valid.csv", test=folder / "test.csv")


def test_given_split_shares_one_numbering(folder: Path) -> None:
    (folder / "links.csv").open("a").write("d,b,2000\n")
    graph = read(folder / "links.csv", valid=folder / "valid.csv", test=folder / "test.csv")
    assert graph.num_nodes == 4
    assert graph.split is not None
    assert graph.split.valid.tolist() == [[0], [2]]
    assert graph.split.test.tolist() == [[3], [0]]
    assert graph.split.test_negatives is None


def test_half_a_split(folder: Path) -> None:
    with pytest.raises(DataError, match="only one of valid and test"):
        read(folder / "links.csv", valid=folder / "valid.csv")


def test_node_table_text_and_matrix(folder: Path) -> None:
    graph = read(folder / "links.csv", nodes=folder / "nodes.csv", text="about")
    assert graph.names is not None
    assert graph.names.tolist() == ["z", "d", "c", "b", "a"]
    assert graph.features is not None
    assert np.allclose(graph.features[1], graph.features[2], atol=1e-5)
    assert not np.allclose(graph.features[2], graph.features[3], atol=0.1)
    with_matrix = read(folder / "links.csv", nodes=folder / "nodes.csv", features=folder / "x.npy")
    assert with_matrix.features is not None
    assert np.array_equal(with_matrix.features, np.eye(5))


def test_integer_ids_are_rows_of_a_bare_matrix(folder: Path) -> None:
    graph = read(folder / "numbers.txt", features=folder / "x.npy")
    assert (graph.num_nodes, graph.names) == (5, None)
    assert graph.links.tolist() == [[0, 1], [1, 3]]
    without = read(folder / "numbers.txt")
    assert without.num_nodes == 3
    assert without.names is not None
    assert without.names.tolist() == [0, 1, 3]


def test_string_ids_and_a_bare_matrix(folder: Path) -> None:
    with pytest.raises(DataError, match=r"links\.csv has ids such as 'b', and .*x\.npy does not say"):
        read(folder / "links.csv", features=folder / "x.npy")


def test_frame_with_feature_frame() -> None:
    frame = pd.DataFrame({"u": [7, 5], "v": [5, 9]})
    features = pd.DataFrame({"id": [9, 7, 5], "p": [0.9, 0.7, 0.5]})
    graph = read(frame, features=features)
    assert graph.directed
    assert graph.features is not None
    assert graph.features.ravel().tolist() == pytest.approx([0.5, 0.7, 0.9])


def test_integer_links_meet_a_feature_table_of_strings(folder: Path) -> None:
    (folder / "x.csv").write_text("id,p\n0,0.5\n1,1.5\n3,3.5\nx,9\n")
    with pytest.raises(DataError, match=r"1 nodes that occur in no link, first 'x'"):
        read(folder / "numbers.txt", features=folder / "x.csv")
    # The same file as node table keeps the node without links, and makes all ids strings.
    graph = read(folder / "numbers.txt", features=folder / "x.csv", nodes=folder / "x.csv")
    assert graph.num_nodes == 4
    assert graph.names is not None
    assert graph.names.tolist() == ["0", "1", "3", "x"]


def test_npz_and_its_text(folder: Path) -> None:
    graph = read(folder / "split.npz")
    assert graph.directed is False
    assert graph.split is not None
    assert read(folder / "split.npz", directed=True).directed
    table = pd.DataFrame({"id": [2, 0, 1], "about": ["red", "blue", "blue"]})
    features = read(folder / "split.npz", nodes=table, text="about").features
    assert features is not None
    assert np.allclose(features[0], features[1], atol=1e-5)
    without = table.drop(columns="about")
    for nodes in (without, without.assign(same=1)):
        with pytest.raises(DataError, match="known without the node table the DataFrame, and no features come"):
            read(folder / "split.npz", nodes=nodes)
    with pytest.raises(DataError, match="leave out nodes"):  # given features are not passed over in silence
        read(folder / "split.npz", nodes=table, features=np.ones((3, 1)))
    with pytest.raises(DataError, match="lacks 1 of 3 nodes, first 1"):
        read(folder / "split.npz", nodes=table.iloc[:2], text="about")


def test_columns_of_a_node_table_make_features(folder: Path) -> None:
    nodes = folder / "nodes.csv"
    graph = read(folder / "links.csv", nodes=nodes)
    assert graph.features is not None
    assert np.array_equal(graph.features[1], graph.features[2])  # d and c are red
    assert np.array_equal(graph.features[3], graph.features[4])  # b and a are blue
    assert not np.array_equal(graph.features[2], graph.features[3])
    assert graph.features_note == f"{nodes} gave 3 feature columns: 3 from the categories of 'about'"
    chosen = read(folder / "links.csv", nodes=nodes, columns="about")
    assert np.array_equal(chosen.features, graph.features)  # type: ignore[arg-type]
    none = read(folder / "links.csv", nodes=nodes, columns=[])
    assert (none.num_nodes, none.features, none.features_note) == (5, None, "")
    for options in ({"features": folder / "x.npy"}, {"text": "about"}):
        other = read(folder / "links.csv", nodes=nodes, **options)  # type: ignore[arg-type]
        assert other.features_note == ""
        assert not np.array_equal(other.features, graph.features)  # type: ignore[arg-type]


def test_columns_follow_the_nodes_of_a_known_graph(folder: Path) -> None:
    table = pd.DataFrame({"id": [2, 0, 1], "size": [2.5, 0.5, 1.5]})
    graph = read(folder / "split.npz", nodes=table)
    assert graph.features is not None
    assert graph.features.ravel().tolist() == pytest.approx([-np.sqrt(1.5), 0, np.sqrt(1.5)])
    assert "1 from the numbers of 'size'" in graph.features_note


def test_npz_without_a_graph(folder: Path) -> None:
    np.savez(folder / "x.npz", x=np.eye(3))
    with pytest.raises(DataError, match=r"x\.npz holds no graph.*features"):
        read(folder / "x.npz")
    (folder / "x.npy").rename(folder / "y.npz")
    with pytest.raises(DataError, match=r"y\.npz is a single npy array"):
        read(folder / "y.npz")


@pytest.mark.parametrize("option", ["source_column", "target_column", "time_column", "valid", "test"])
def test_options_of_link_files_are_refused_elsewhere(folder: Path, option: str) -> None:
    for source in (folder / "split.npz", "planted", np.array([[0], [1]])):
        with pytest.raises(DataError, match=f"{option} applies to link files"):
            read(source, **{option: "x"})  # type: ignore[arg-type]


def test_names() -> None:
    assert set(DATASETS) >= {"debian", "planted"}
    graph = read("planted")
    assert graph.num_nodes == 1000
    assert graph.directed is False
    assert all(DATASETS.summaries().values())
    assert read("planted", features=np.ones((1000, 2))).features.shape == (1000, 2)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["debain", "no/such/links.csv"])
def test_neither_name_nor_file(name: str) -> None:
    with pytest.raises(DataError, match=f"no file '{name}' and no data set of that name.*Valid: .*debian, .*planted"):
        read(name)


def test_other_sources(folder: Path) -> None:
    with pytest.raises(DataError, match="is a folder"):
        read(folder)
    with pytest.raises(DataError, match="cannot be read from dict"):
        read({"a": "b"})
    with pytest.raises(DataError, match="there is no file"):
        read("x" * 5000)
    with pytest.raises(DataError, match="a table cannot be read from int"):
        read("planted", nodes=3)  # type: ignore[arg-type]
    (folder / "links.xlsx").write_text("x")
    with pytest.raises(DataError, match=r"links\.xlsx: no table format"):
        read(folder / "links.xlsx")
