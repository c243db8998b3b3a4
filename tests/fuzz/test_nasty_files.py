"""One file of every nasty kind by itself, so that a defect has a name."""

import gzip
import io
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from container_mutations import billion_laughs, bomb, dictionary_bomb, npy_with_header, text_bomb, zipped
from safetensors.torch import save_file

from headtail import limits, load
from headtail.cli import main
from headtail.config import make_config
from headtail.errors import ConfigError, DataError, HeadtailError, RunError
from headtail.files import read_tensors

RING = "a,b\n0,1\n1,2\n2,0\n0,2\n"


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the machine have 100 MB to spare, so that a bomb needs not be larger than that to be one."""
    monkeypatch.setattr(limits, "available_bytes", lambda: 10**8)
    monkeypatch.setattr("headtail.datasets.parquet.available_bytes", lambda: 10**8)


def told(work: Callable[[], object], kind: type[HeadtailError] = DataError) -> str:
    """Returns the sentence of a refusal, which came at once."""
    start = time.process_time()
    with pytest.raises(kind) as caught:
        work()
    assert time.process_time() - start < 10
    assert str(caught.value).isprintable()
    return str(caught.value)


def features(folder: Path, name: str, content: bytes) -> str:
    """Returns the refusal of a feature file beside a ring of three nodes."""
    (folder / "g.csv").write_text(RING)
    (folder / name).write_bytes(content)
    return told(lambda: load(folder / "g.csv", features=folder / name))


def links(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return told(lambda: load(folder / name))


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(1000000, 1000000)", "(4294967296, 4294967296)"])
def test_huge_npy_headers(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    assert "its header claims" in features(tmp_path, "x.npy", npy_with_header(header))
    assert "its header claims" in features(tmp_path, "x.npz", zipped({"x.npy": npy_with_header(header)}))


@pytest.mark.parametrize("inner", ["(" * 300 + ")" * 300, "[" * 4000 + "]" * 4000, "(-1,)", "(3.5,)", "{"])
def test_npy_headers_that_are_none(tmp_path: Path, inner: str) -> None:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {inner}, }}"
    assert "x.npy is damaged" in features(tmp_path, "x.npy", npy_with_header(header))


@pytest.mark.slow
def test_zip_bombs(tmp_path: Path, little_memory: None) -> None:
    packed = bomb(2 * 10**8)
    assert len(packed) < 10**6
    assert "unpacked, needs 190.7 MiB of memory" in features(tmp_path, "x.npz", packed)


@pytest.mark.slow
def test_many_members_count_together(tmp_path: Path, little_memory: None) -> None:
    column = npy_with_header("{'descr': '|u1', 'fortran_order': False, 'shape': (40000000,), }", bytes(4 * 10**7))
    arrays = {"num_nodes.npy": column, "directed.npy": column, "train.npy": column}
    assert "unpacked, needs" in links(tmp_path, "g.npz", zipped(arrays))


@pytest.mark.parametrize("name", ["g.csv.gz", "g.txt.gz"])
def test_text_bombs(tmp_path: Path, little_memory: None, name: str) -> None:
    assert "unpacked, needs" in links(tmp_path, name, text_bomb(10**9))


def test_a_text_larger_than_memory(tmp_path: Path, little_memory: None) -> None:
    with (tmp_path / "g.csv").open("wb") as file:
        file.truncate(10**12)  # takes no room on the disk
    assert "of memory" in told(lambda: load(tmp_path / "g.csv"))


def test_parquet_strings_that_repeat(tmp_path: Path) -> None:
    packed = dictionary_bomb(10**6, 10**6)
    assert len(packed) < 10**5
    assert "needs 1.8 TiB of memory" in links(tmp_path, "g.parquet", packed)


def test_one_long_text_among_many_is_no_bomb(tmp_path: Path, little_memory: None) -> None:
    ids = pa.array([f"n{number % 50}" for number in range(5000)] + ["x" * 10**5])
    pq.write_table(pa.table({"from": ids, "to": pa.array(ids.to_pylist()[::-1])}), tmp_path / "g.parquet")
    assert load(tmp_path / "g.parquet").num_nodes == 51


def test_parquet_text_that_is_no_utf8(tmp_path: Path) -> None:
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    pq.write_table(pa.table({"a": bad, "b": bad}), tmp_path / "g.parquet")
    assert "is damaged: " in told(lambda: load(tmp_path / "g.parquet"))


@pytest.mark.parametrize("footer", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f"])
def test_parquet_footers(tmp_path: Path, footer: bytes) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1, 2], "b": [2, 3]}), file)
    assert "Parquet" in links(tmp_path, "g.parquet", file.getvalue()[:-8] + footer + b"PAR1")


@pytest.mark.parametrize("length", [2**60, 2**64 - 1, 10**8, 0])
def test_safetensors_header_lengths(tmp_path: Path, length: int) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"a": torch.zeros(3)}, path, metadata={"facts": "{}"})
    path.write_bytes(struct.pack("<Q", length) + path.read_bytes()[8:])
    assert "is damaged" in told(lambda: read_tensors(path), RunError)


@pytest.mark.parametrize("facts", ["[" * 100_000, "[]", "1", '{"a": ' * 5000 + "1" + "}" * 5000, "1" * 5000])
def test_facts_that_are_none(tmp_path: Path, facts: str) -> None:
    path = tmp_path / "t.safetensors"
    save_file({"a": torch.zeros(3)}, path, metadata={"facts": facts})
    assert "is damaged" in told(lambda: read_tensors(path), RunError)


def test_yaml_that_means_a_billion_values(tmp_path: Path) -> None:
    import random

    (tmp_path / "c.yaml").write_bytes(billion_laughs(random.Random(0), b""))
    assert "means more than 10,000 values" in told(lambda: make_config("fast", tmp_path / "c.yaml"), ConfigError)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "epochs: " + "[" * 5000,
        "epochs: " + "1" * 5000,
        "epochs: 2024-99-99",
        "epochs: !!timestamp x",
        "epochs: !!python/object/apply:os.abort []",
        "x" * 300_000,
        "? [a]\n: b",
        "epochs: 2",
    ],
    ids=["cycle", "deep", "long integer", "no date", "no time", "code", "large", "list as key", "fine"],
)
def test_yaml(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.yaml").write_text(text)
    if text == "epochs: 2":
        assert make_config("fast", tmp_path / "c.yaml").training.epochs == 2
    else:
        told(lambda: make_config("fast", tmp_path / "c.yaml"), ConfigError)


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + RING.encode(),
        RING.replace("\n", "\r\n").encode(),
        RING.replace("\n", "\r").encode(),
        RING.replace("0,1", '"0","1"').encode(),
        RING.encode() + b"\n\n",
    ],
    ids=["BOM", "CRLF", "CR", "quotes", "blank lines"],
)
def test_marks_line_ends_and_quotes_are_no_part_of_ids(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "g.csv").write_bytes(content)
    graph = load(tmp_path / "g.csv")
    assert (graph.num_nodes, graph.links.shape[1], graph.names.index) == (3, 4, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (RING.encode("utf-16"), "UTF-16 text"),
        (b"a,b\n1,2\x00\n", "binary file or UTF-16"),
        ("a,b\nn1,é\n".encode("latin-1"), "line 2: not UTF-8"),
        ("a,b\nn1,é\n".encode() + "a,é\n".encode("latin-1"), "line 3: not UTF-8"),
        (b'a,b\n"1,2\n3,4\n', "quotation mark"),
        (b"a,b\n1,2\n3\n", "line 3"),
    ],
    ids=["UTF-16", "NUL", "Latin-1", "mixed", "open quote", "short line"],
)
def test_text_that_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    assert message in links(tmp_path, "g.csv", content)


def test_a_field_of_ten_million_characters(tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text(RING + "9" * 10**7 + ",1\n")
    graph = load(tmp_path / "g.csv")
    assert graph.num_nodes == 4
    assert len(told(lambda: graph.names.find(["8" * 10**7]))) < 2000
    assert len(told(lambda: graph.names.find(["9" * (10**7 - 1)]))) < 2000
    assert len(told(lambda: graph.names.find(["99"]))) < 2000
    (tmp_path / "g.csv").write_text("x" * 10**7 + ",b\n0,1\n")
    assert len(links(tmp_path, "g.csv", (tmp_path / "g.csv").read_bytes())) < 2000


@pytest.mark.parametrize("columns", [b"," * 10**6, b",".join(b"c%d" % place for place in range(10**5))])
def test_a_million_columns(tmp_path: Path, columns: bytes) -> None:
    (tmp_path / "g.csv").write_bytes(columns + b"\n1,2\n")
    told(lambda: load(tmp_path / "g.csv"))
    told(lambda: load(tmp_path / "g.csv", source_column="c"))


@pytest.mark.parametrize("identifier", ["-1", "9223372036854775808", "-9223372036854775809", "1" * 400])
def test_ids_beyond_64_bits_are_names_and_no_rows(tmp_path: Path, identifier: str) -> None:
    (tmp_path / "g.csv").write_text(f"{RING}{identifier},1\n")
    assert load(tmp_path / "g.csv").num_nodes == 4
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    told(lambda: load(tmp_path / "g.csv", features=tmp_path / "x.npy"))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_features_that_are_not_finite(tmp_path: Path, value: float) -> None:
    file = io.BytesIO()
    np.save(file, np.array([[1.0], [value], [2.0]]))
    assert "for node 1 in column 0" in features(tmp_path, "x.npy", file.getvalue())


@pytest.mark.parametrize("kind", ["c16", "U3", "S3", "M8[s]"])
def test_features_of_another_type(tmp_path: Path, kind: str) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros((3, 2)).astype(kind))
    assert "expected numbers" in features(tmp_path, "x.npy", file.getvalue())


@pytest.mark.parametrize("count", [2**62, 10**10])
def test_more_nodes_than_can_be(tmp_path: Path, count: int) -> None:
    np.savez(tmp_path / "g.npz", num_nodes=np.array(count), directed=True, train=np.array([[0, 1], [1, 2]]))
    assert "headtail numbers 3,037,000,499 at most" in told(lambda: load(tmp_path / "g.npz"))


def test_more_nodes_than_memory_has_room_for(tmp_path: Path, little_memory: None) -> None:
    np.savez(tmp_path / "g.npz", num_nodes=np.array(10**9), directed=True, train=np.array([[0, 1], [1, 2]]))
    assert "1,000,000,000 nodes, which needs" in told(lambda: load(tmp_path / "g.npz"))


def test_the_command_line_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.csv").write_bytes(b"a\x1b[31m,b\n" + b"1,2,3\n")
    assert main(["data", "info", str(tmp_path / "g.csv"), "--source-column", "\x1b[31mx\n", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "\x1b" not in captured.err
    assert json.loads(captured.out)["error"] in captured.err


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory")],
)
def test_memory_that_runs_out_all_the_same_is_told(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("headtail.load", fail)
    assert main(["data", "info", "planted"]) == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory for this")


def test_gzip_that_is_cut(tmp_path: Path) -> None:
    assert "is damaged or not a .gz file" in links(tmp_path, "g.csv.gz", gzip.compress(RING.encode())[:-9])
