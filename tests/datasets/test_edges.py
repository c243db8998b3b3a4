"""Link files of every format, and what is said about the ones that cannot be used."""

import gzip
import lzma
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headtail.datasets.edges import LinkColumns, read_links
from headtail.errors import DataError


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "source,target\n1,2\n2,3\n"),
        ("a.csv", "1,2\n2,3\n"),
        ("a.csv", "\ufeffsource,target\r\n1, 2\r\n\r\n2,3"),
        ("a.csv", 'source,target\n"1","2"\n"2","3"\n'),
        ("a.tsv", "source\ttarget\n1\t2\n2\t3\n"),
        ("a.txt", "# from SNAP\n# FromNodeId ToNodeId\n1 2\n2\t3\n"),
        ("a.edges", "\n  1   2 \n# between\n 2 3\t\n"),
        ("a.txt", "from to weight\n1 2 0.5\n2 3 0.25\n"),
    ],
)
def test_integer_links_of_every_text_format(tmp_path: Path, name: str, text: str) -> None:
    links = read_links(write(tmp_path / name, text))
    assert links.heads.dtype == np.int64
    assert links.heads.tolist() == [1, 2]
    assert links.tails.tolist() == [2, 3]
    assert links.times is None


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_text(tmp_path: Path, suffix: str, pack) -> None:
    path = tmp_path / f"links.tsv{suffix}"
    path.write_bytes(pack(b"a\tb\nx\ty\n"))
    assert read_links(path).heads.tolist() == ["x"]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (["1", "-2"], [1, -2]),
        (["007", "1"], ["007", "1"]),
        (["+7", "1"], ["+7", "1"]),
        (["1.0", "2"], ["1.0", "2"]),
        (["0x1F", "2"], ["0x1F", "2"]),
        (["-0", "2"], ["-0", "2"]),
        (["9223372036854775807", "1"], [9223372036854775807, 1]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["NA", "null"], ["NA", "null"]),
        (["Zürich", "東京"], ["Zürich", "東京"]),
    ],
)
def test_ids_come_back_as_they_were_written(tmp_path: Path, heads: list[str], expected: list[object]) -> None:
    links = read_links(write(tmp_path / "a.csv", "u,v\n" + "".join(f"{head},5\n" for head in heads)))
    assert links.heads.tolist() == expected
    # Both ends are of one kind, or "5" would not be the same node as 5.
    assert links.tails.tolist() == [5 if isinstance(expected[0], int) else "5"] * 2


def test_parquet_and_frame_agree_with_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"when": [5, 6], "u": ["a", "b"], "v": ["b", "c"]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (tmp_path / "a.csv", tmp_path / "a.parquet", frame):
        links = read_links(source, LinkColumns(time="when"))
        assert links.heads.tolist() == ["a", "b"]
        assert links.tails.tolist() == ["b", "c"]
        assert links.times is not None
        assert links.times.tolist() == [5, 6]


@pytest.mark.parametrize("dtype", ["int8", "uint64", "Int64", "category", "str", "object"])
def test_frame_ids_of_any_integer_or_string_type(dtype: str) -> None:
    frame = pd.DataFrame({"u": [1, 2], "v": [2, 3]}).astype(dtype)
    assert read_links(frame).heads.tolist() == [1, 2]


def test_named_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "n,to,from\n0,b,a\n")
    links = read_links(path, LinkColumns(source="from", target="to"))
    assert (links.heads[0], links.tails[0]) == ("a", "b")
    unnamed = read_links(write(tmp_path / "b.csv", "7,8,9\n"), LinkColumns(source="3", target="1"))
    assert (unnamed.heads[0], unnamed.tails[0]) == (9, 7)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["5", "-6"], [5, -6]),
        (["5.0", "6e3"], [5, 6000]),
        (["1970-01-02", "2000-01-01"], [86400, 946684800]),
        (["1970-01-01T00:01:00", "1970-01-01 00:00:01.9"], [60, 1]),
        (["1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00Z"], [0, 0]),
    ],
)
def test_times(tmp_path: Path, values: list[str], expected: list[int]) -> None:
    text = "u,v,t\n" + "".join(f"a,b,{value}\n" for value in values)
    times = read_links(write(tmp_path / "a.csv", text), LinkColumns(time="t")).times
    assert times is not None
    assert times.dtype == np.int64
    assert times.tolist() == expected


def test_typed_times() -> None:
    for values in (
        pd.to_datetime(["1970-01-02", "1970-01-03"]),
        pd.to_datetime(["1970-01-02", "1970-01-03"], utc=True),
    ):
        frame = pd.DataFrame({"u": [1, 2], "v": [2, 3], "t": values})
        times = read_links(frame, LinkColumns(time="t")).times
        assert times is not None
        assert times.tolist() == [86400, 172800]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "a.csv is empty"),
        ("a.txt", "# only a comment\n", "a.txt is empty"),
        ("a.csv", "source,target\n", "a.csv holds a header and no rows"),
        ("a.csv", "u,v\na,b\n\na,b,c\n", "a.csv, line 4: found 3 columns, expected 2"),
        ("a.csv", "u,v\na,b\nc\n", "a.csv, line 3: found 1 columns, expected 2"),
        ("a.txt", "# c\n1 2\n1 2 3\n", "a.txt, line 3: found 3 columns, expected 2"),
        ("a.tsv", "# graph\n1\t2\n", "a.tsv has only 1 column"),
        ("a.csv", "# u,v\na,b\nc\n", "a.csv, line 3.*lines with '#' are comments in .txt"),
        ("a.csv", 'u,v\n"a,b\nc,d\n', "a.csv, line 2: found 1.*quotation mark left open"),
        ("a.csv", "u,v\na,b\na,\n", "a.csv, line 3: the id in column 'v' is empty"),
        ("a.csv", "u,v\na,b\n  ,c\n", "a.csv, line 3: the id in column 'u' is empty"),
        ("a.csv", 'u,v\n"a\nb",c\nd,\n', "a.csv, line 4: the id in column 'v' is empty"),
        ("a.csv", "u;v\na;b\n", "only 1 column.*target_column.*commas"),
        ("a.csv", "u,u\na,b\n", "a.csv: two columns are called 'u'"),
        ("a.csv", ",u,v\n0,a,b\n", "source_column has no name"),
        ("a.xls", "u,v\na,b\n", "a.xls: no table format.*.csv, .tsv"),
        ("a.csv", "u,v\na,\0b\n", "a.csv is a binary file"),
    ],
)
def test_unusable_files(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_links(write(tmp_path / name, text))


def test_wrong_encoding_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("u,v\na,b\nZürich,b\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"a\.csv, line 3: not UTF-8"):
        read_links(tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"there is no file .*{name}"):
        read_links(tmp_path / name)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.xz", "a.parquet"])
def test_damaged_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=rf"{name} is (damaged|not a readable)"):
        read_links(write(tmp_path / name, "certainly not that format"))


def test_folder_in_place_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match=r"a\.csv cannot be read"):
        read_links(tmp_path / "a.csv")


def test_unknown_column_lists_the_nearest_first(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "alpha,source,target\n0,a,b\n")
    with pytest.raises(DataError, match=r"no column 'sourc' .*did you mean 'source'\? Valid: source, alpha, target"):
        read_links(path, LinkColumns(source="sourc"))
    with pytest.raises(DataError, match="different columns"):
        read_links(path, LinkColumns(source="source", target="source"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("1.5", "line 3: time 1.5 in column 't' is no whole number"),
        ("", "line 3: the time in column 't' is empty"),
        ("soon", "line 3: 'soon' in column 't' is no time"),
        ("nan", "line 3: time nan"),
    ],
)
def test_unusable_times(tmp_path: Path, value: str, message: str) -> None:
    first = "2020-01-01" if value == "soon" else "1"
    path = write(tmp_path / "a.csv", f"u,v,t\na,b,{first}\na,c,{value}\n")
    with pytest.raises(DataError, match=message):
        read_links(path, LinkColumns(time="t"))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"u": [1.0, 2.0], "v": [1, 2]}), "column 'u' are double; convert"),
        (pd.DataFrame({"u": ["a", None], "v": ["b", "c"]}), "row 1 .*column 'u' is empty"),
        (pd.DataFrame({"u": ["a", 2], "v": ["b", "c"]}, dtype=object), "column 'u' mixes types"),
        (pd.DataFrame({"u": [], "v": []}), "is empty"),
        (pd.DataFrame({"u": [1], "v": [2], "t": [1.5]}), None),
    ],
)
def test_unusable_frames(frame: pd.DataFrame, message: str | None) -> None:
    columns = LinkColumns(time="t") if "t" in frame else LinkColumns()
    with pytest.raises(DataError, match=message or "row 0 .*1.5 in column 't' is no whole number"):
        read_links(frame, columns)


@pytest.mark.slow
def test_a_million_lines_take_a_moment(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 10**6, (10**6, 2))
    pd.DataFrame(numbers).to_csv(tmp_path / "a.txt", sep=" ", header=False, index=False)
    start = time.perf_counter()
    links = read_links(tmp_path / "a.txt")
    assert time.perf_counter() - start < 10
    assert np.array_equal(np.stack([links.heads, links.tails], axis=1), numbers)
