"""Features from matrices and tables, and what is said about unusable ones."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.features import matrix_features, read_matrix, table_features
from headtail.errors import DataError

NAMES = pd.Index(["a", "b", "c"])
MATRIX = np.arange(6, dtype=np.float64).reshape(3, 2)


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "bool"])
@pytest.mark.parametrize("form", ["npy", "npz x", "npz only", "array"])
def test_matrices(tmp_path: Path, dtype: str, form: str) -> None:
    matrix = MATRIX.astype(dtype)
    source: Path | np.ndarray = tmp_path / f"x.{form[:3]}"
    if form == "npy":
        np.save(source, matrix)
    elif form == "npz x":
        np.savez(source, x=matrix, other=np.ones((2, 2)))
    elif form == "npz only":
        np.savez(source, feats=matrix, labels=np.arange(3))
    else:
        source = matrix
    read = read_matrix(source)
    assert read is not None
    features = matrix_features(*read, num_nodes=3)
    assert features.dtype == np.float32
    assert np.array_equal(features, matrix.astype(np.float32))


def test_tensor() -> None:
    torch = pytest.importorskip("torch")
    read = read_matrix(torch.ones(3, 2, dtype=torch.bfloat16, requires_grad=True))
    assert read is not None
    assert read[0].shape == (3, 2)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", "frame"])
def test_tables_are_matched_by_id_in_any_order(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame({"p": [4.5, 0, 2], "id": ["c", "a", "b"], "q": [5, 1, 3]})
    source: Path | pd.DataFrame = tmp_path / f"x{suffix}"
    if suffix == ".csv":
        frame.to_csv(source, index=False)
    elif suffix == ".parquet":
        frame.to_parquet(source)
    else:
        source = frame
    features = table_features(source, 3, NAMES, node_column="id")
    assert features.dtype == np.float32
    assert features.tolist() == [[0, 1], [2, 3], [4.5, 5]]


def test_table_without_header_and_with_integer_ids(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("2,0.5,-1e-3\n0,1,2\n1,3,4\n")
    features = table_features(tmp_path / "x.csv", 3, None)
    assert features.tolist() == [[1, 2], [3, 4], [0.5, pytest.approx(-1e-3)]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,p\na,1\nb,2\n", r"x\.csv lacks 1 of 3 nodes, first 'c'"),
        (
            "id,p\na,1\nb,2\nc,3\nd,4\ne,5\n",
            r"x\.csv has 2 nodes that occur in no link, first 'd', 'e'.*nodes",
        ),
        ("id,p\na,1\nb,two\nc,3\n", r"x\.csv, line 3: 'two' in column 'p' is no number.*--nodes"),
        ("id,p\na,1\nb,\nc,3\n", r"x\.csv, line 3: '' in column 'p' is no number"),
        ("id,p\na,1\nb,nan\nc,inf\n", r"x\.csv: 2 feature values are NaN.*node 'b' in column 'p'"),
        ("id,p\na,1\nb,2\nb,2\nc,3\n", r"x\.csv, line 4: id 'b'"),
        ("id\na\nb\nc\n", "only the id column 'id'"),
    ],
)
def test_unusable_tables(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        table_features(tmp_path / "x.csv", 3, NAMES)


def test_typed_columns_that_are_no_numbers() -> None:
    frame = pd.DataFrame({"id": ["a", "b", "c"], "when": pd.to_datetime(["2020-01-01"] * 3)})
    with pytest.raises(DataError, match=r"'when' holds timestamp.*--nodes"):
        table_features(frame, 3, NAMES)
    with pytest.raises(DataError, match=r"1 feature values are NaN.*node 'b' in column 'p'"):
        table_features(pd.DataFrame({"id": ["a", "b", "c"], "p": [1.0, None, 2.0]}), 3, NAMES)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((4, 2)), "has 4 rows, but the graph has 3 nodes"),
        (np.array([[1, 2], [3, np.nan], [np.inf, 1]]), "2 feature values are NaN.*node 'b' in column 1"),
        (np.full((3, 1), 1e300), "3 feature values are NaN, infinite or too large"),
        (np.ones(3), r"shape \(3,\), expected \[nodes, features\]"),
        (np.ones((3, 0)), "expected"),
        (np.array([["x"], ["y"], ["z"]]), "holds <U1, expected numbers"),
    ],
)
def test_unusable_matrices(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        matrix_features(matrix, "x.npy", 3, NAMES)


def test_files_that_are_no_matrices(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=MATRIX, b=MATRIX)
    with pytest.raises(DataError, match=r"two\.npz holds 2 matrices \(a, b\)"):
        read_matrix(tmp_path / "two.npz")
    with pytest.raises(DataError, match=r"x\.pt: no format is known.*\.npy, \.npz, \.csv"):
        read_matrix(tmp_path / "x.pt")
    with pytest.raises(DataError, match=r"there is no file .*none\.npy"):
        read_matrix(tmp_path / "none.npy")
    (tmp_path / "bad.npy").write_text("no array")
    with pytest.raises(DataError, match=r"bad\.npy is damaged"):
        read_matrix(tmp_path / "bad.npy")
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="never unpickled"):
        read_matrix(tmp_path / "objects.npy")
    np.savez(tmp_path / "objects.npz", x=np.array([{}], dtype=object))
    with pytest.raises(DataError, match="never unpickled"):
        read_matrix(tmp_path / "objects.npz")
