"""The npz split layout, and what is said about a file that departs from it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.npz import read_npz, write_npz
from headtail.errors import DataError


def arrays(**changed: object) -> dict[str, object]:
    """A valid file of five nodes; a change to None removes an array."""
    good: dict[str, object] = {
        "num_nodes": np.int64(5),
        "directed": np.bool_(True),
        "metric": np.str_("mrr"),
        "x": np.ones((5, 2), dtype=np.float16),
        "train": np.array([[0, 1, 2], [1, 2, 3]], dtype=np.int32),
        "train_time": np.array([2020, 2021, 2022], dtype=np.int16),
        "valid": np.array([[3, 4], [0, 0]]),
        "test": np.array([[4], [1]]),
        "valid_neg": np.array([[1, 2], [1, 2]]),
        "test_neg": np.array([[2, 3, 0]]),
    }
    return {name: value for name, value in (good | changed).items() if value is not None}


def save(tmp_path: Path, **changed: object) -> Path:
    np.savez(tmp_path / "g.npz", **arrays(**changed))  # type: ignore[arg-type]
    return tmp_path / "g.npz"


def test_whole_file(tmp_path: Path) -> None:
    graph = read_npz(save(tmp_path))
    assert (graph.num_nodes, graph.directed, graph.metric) == (5, True, "mrr")
    assert graph.links.dtype == np.int64
    assert graph.links.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert graph.times is not None
    assert graph.times.tolist() == [2020, 2021, 2022]
    assert graph.features is not None
    assert graph.features.dtype == np.float32
    assert graph.split is not None
    assert graph.split.test.tolist() == [[4], [1]]
    assert graph.split.test_negatives is not None
    assert graph.split.test_negatives.tolist() == [[2, 3, 0]]


def test_links_alone(tmp_path: Path) -> None:
    optional = ("metric", "x", "train_time", "valid", "test", "valid_neg", "test_neg")
    graph = read_npz(save(tmp_path, **dict.fromkeys(optional)))
    assert graph.split is None
    assert graph.features is None
    assert graph.metric is None


@pytest.mark.parametrize("names", [["é", "b c", "d,e", "0", "-"], [7, 2**40, -1, 3, 0]])
def test_names_come_back_as_they_were(tmp_path: Path, names: list[str] | list[int]) -> None:
    graph = read_npz(save(tmp_path, names=np.array(names)))
    assert graph.names is not None
    assert graph.names.tolist() == names


@pytest.mark.parametrize("names", [None, pd.Index(["é", "b", "c", "d", "e"]), pd.Index([5, 4, 2**40, 2, 1])])
def test_written_files_read_back(tmp_path: Path, names: pd.Index | None) -> None:
    graph = replace(read_npz(save(tmp_path)), names=names)
    write_npz(graph, tmp_path / "again.npz")
    again = read_npz(tmp_path / "again.npz")
    assert (again.num_nodes, again.directed, again.metric) == (5, True, "mrr")
    assert (again.names is None) == (names is None)
    assert names is None or (again.names is not None and again.names.tolist() == names.tolist())
    assert again.split is not None
    assert graph.split is not None
    for one, other in (
        (graph.links, again.links),
        (graph.times, again.times),
        (graph.features, again.features),
        (graph.split.valid, again.split.valid),
        (graph.split.test_negatives, again.split.test_negatives),
    ):
        np.testing.assert_array_equal(one, other)  # type: ignore[arg-type]


def test_links_alone_are_written(tmp_path: Path) -> None:
    optional = ("metric", "x", "train_time", "valid", "test", "valid_neg", "test_neg")
    write_npz(read_npz(save(tmp_path, **dict.fromkeys(optional))), tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == {"num_nodes", "directed", "train"}


def test_hits_negatives_are_pairs(tmp_path: Path) -> None:
    pairs = np.array([[0, 1, 2], [3, 3, 3]])
    graph = read_npz(save(tmp_path, metric="hits@20", valid_neg=pairs, test_neg=pairs))
    assert graph.split is not None
    assert graph.split.valid_negatives is not None
    assert graph.split.valid_negatives.shape == (2, 3)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": None}, r"g\.npz has no array 'train'; it holds: directed"),
        ({"directed": None}, "no array 'directed'"),
        ({"test_negs": np.ones((1, 1))}, "unknown array 'test_negs'; did you mean 'test_neg'"),
        ({"num_nodes": np.array([1, 2])}, "'num_nodes' must be a single value"),
        ({"num_nodes": np.int64(0)}, "num_nodes is 0"),
        ({"train": np.ones((3, 2), dtype=int)}, r"'train' has shape \(3, 2\), expected \[2, E\]"),
        ({"train": np.ones((2, 3))}, "'train' holds float64, expected integers"),
        ({"train": np.array([[0, 5, 1], [1, 1, 1]])}, r"'train' names node 5 at index \(0, 1\).*0 … 4"),
        ({"valid": np.array([[0, -1], [1, 1]])}, "'valid' names node -1"),
        ({"test_neg": np.array([[2, 3, 9]])}, "'test_neg' names node 9"),
        ({"metric": "auc"}, "unknown metric 'auc'; use 'mrr' or 'hits@K'"),
        ({"metric": "hits@0"}, "unknown metric 'hits@0'"),
        ({"metric": None}, "negatives but no 'metric'"),
        (
            {"metric": "hits@5", "valid_neg": np.ones((3, 2), int)},
            r"'valid_neg'.*expected \[2, M\] pairs for hits@5",
        ),
        ({"test_neg": np.ones((2, 3), int)}, r"'test_neg' has shape \(2, 3\), expected \[1, K\] for mrr"),
        ({"test_neg": np.ones((1, 0), int)}, "'test_neg' is empty"),
        ({"test": None}, "only one of 'valid' and 'test'"),
        ({"test_neg": None}, "only one of 'valid_neg' and 'test_neg'"),
        ({"valid": None, "test": None}, "negatives without positives"),
        ({"train_time": np.array([1, 2])}, r"'train_time' has shape \(2,\), expected \[3\]"),
        ({"names": np.array(["a", "b"])}, r"'names' is <U1 of shape \(2,\), expected texts or integers \[5\]"),
        ({"names": np.ones(5)}, "'names' is float64"),
        ({"names": np.array(list("abcdb"))}, "'names' holds 'b' twice, the second time for node 4"),
        ({"names": np.array([*"abcd", None], dtype=object)}, "never unpickled"),
        ({"x": np.ones((4, 2))}, "array 'x' has 4 rows, but the graph has 5 nodes"),
        ({"x": np.full((5, 2), np.nan)}, "array 'x': 10 feature values are NaN.*node 0"),
        ({"x": np.array([{}] * 5, dtype=object)}, "never unpickled"),
    ],
)
def test_departures(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_npz(save(tmp_path, **changed))


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"there is no file .*none\.npz"):
        read_npz(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(DataError, match=r"bad\.npz is damaged"):
        read_npz(tmp_path / "bad.npz")
    cut = save(tmp_path).read_bytes()
    (tmp_path / "cut.npz").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(DataError, match=r"cut\.npz is damaged"):
        read_npz(tmp_path / "cut.npz")
    np.save(tmp_path / "single.npy", np.ones(2))
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    with pytest.raises(DataError, match="rename"):
        read_npz(tmp_path / "single.npz")
