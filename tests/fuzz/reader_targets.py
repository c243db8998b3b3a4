"""Every reader of headtail with a small valid file for it, and which mutations suit the file."""

import gzip
import io
import lzma
import random
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import container_mutations as containers
import numpy as np
import pandas as pd
import torch
from byte_mutations import BYTES, TEXT, Mutation

from headtail.cli import explained
from headtail.cli.data_info import data_info
from headtail.errors import HeadtailError

# By the end of a file's name; every file also gets the mutations that know nothing of formats.
SUITED: Mapping[str, Mapping[str, Mutation]] = {
    ".csv": TEXT,
    ".tsv": TEXT,
    ".txt": TEXT,
    ".gz": containers.GZ,
    ".xz": containers.XZ,
    ".parquet": containers.PARQUET,
    ".npy": containers.NPY,
    ".npz": containers.NPZ,
    ".pt": containers.PT,
    ".yaml": containers.YAML,
    ".jsonl": containers.JSONL,
    ".json": containers.JSONL,
    ".safetensors": containers.SAFETENSORS,
}
NODES, LINKS = 40, 160


@dataclass(frozen=True)
class Answer:
    """What the command line said."""

    code: int
    err: str


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        name: of the reader, for the table.
        seed: writes valid files into a folder.
        spoil: the files of which one is damaged, relative to that folder.
        read: reads the folder as the command line does.
    """

    name: str
    seed: Callable[[Path], None]
    spoil: tuple[str, ...]
    read: Callable[[Path], Answer]


def called(work: Callable[[Path], object]) -> Callable[[Path], Answer]:
    """Lets a function answer as the command line would, which spends more time on its arguments than on small files."""

    def read(folder: Path) -> Answer:
        err = io.StringIO()
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(err):
                work(folder)
        except Exception as error:
            sentence, code = (str(error), 2) if isinstance(error, HeadtailError) else explained(error)
            if code != 2:
                raise
            return Answer(code, f"{err.getvalue()}error: {sentence}\n")
        return Answer(0, err.getvalue())

    return read


def links() -> list[tuple[int, int, int]]:
    """Heads, tails and years of a small graph; the same every time."""
    rng, found = random.Random(0), set()
    while len(found) < LINKS:
        head, tail = rng.randrange(NODES), rng.randrange(NODES)
        if head != tail:
            found.add((head, tail))
    return [(head, tail, 2000 + place % 20) for place, (head, tail) in enumerate(sorted(found))]


def _link_text(separator: str, named: bool = True) -> bytes:
    lines = [separator.join(("from", "to", "year"))] if named else []
    lines += [separator.join((f"n{head}", f"n{tail}", str(year))) for head, tail, year in links()]
    return ("\n".join(lines) + "\n").encode()


def _link_frame() -> pd.DataFrame:
    frame = pd.DataFrame(links(), columns=["from", "to", "year"])
    return frame.assign(**{"from": "n" + frame["from"].astype(str), "to": "n" + frame["to"].astype(str)})


def _node_frame() -> pd.DataFrame:
    rng, words = random.Random(1), ("graph", "link", "node", "tool", "python", "fast")
    rows = [
        (f"n{node}", " ".join(rng.sample(words, 3)), rng.choice("abc"), rng.gauss(0, 1), f"2024-01-{node % 28 + 1:02}")
        for node in range(NODES)
    ]
    return pd.DataFrame(rows, columns=["id", "about", "kind", "size", "since"])


def _feature_frame() -> pd.DataFrame:
    numbers = np.random.default_rng(0).normal(size=(NODES, 3)).round(4)
    return pd.DataFrame({"id": [f"n{node}" for node in range(NODES)], **dict(zip("xyz", numbers.T, strict=True))})


def writes(**files: Callable[[], bytes]) -> Callable[[Path], None]:
    """Returns a seed that writes files; `links_csv` is called links.csv."""

    def seed(folder: Path) -> None:
        for name, make in files.items():
            (folder / name.replace("_", ".")).write_bytes(make())

    return seed


def parquet_of(frame: pd.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    return file.getvalue()


def _numbered_links() -> bytes:
    return ("\n".join(f"{head},{tail}" for head, tail, _ in links()) + "\n").encode()


def _npz(**arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def _split() -> bytes:
    pairs = np.array([link[:2] for link in links()]).T
    rng = np.random.default_rng(0)
    return _npz(
        num_nodes=np.array(NODES),
        directed=np.array(True),
        metric=np.array("mrr"),
        train=pairs[:, :120],
        train_time=np.arange(120),
        valid=pairs[:, 120:140],
        test=pairs[:, 140:],
        valid_neg=rng.integers(NODES, size=(20, 5)),
        test_neg=rng.integers(NODES, size=(20, 5)),
        names=np.array([f"n{node}" for node in range(NODES)]),
        x=rng.normal(size=(NODES, 4)).astype(np.float32),
    )


def _matrix() -> bytes:
    return containers.npy_of(np.random.default_rng(0).normal(size=(NODES, 4)))


def describe(file: str, time_column: str | None = None, **files: str) -> Callable[[Path], Answer]:
    """Reads a graph as `headtail data info` does."""

    def work(folder: Path) -> None:
        options: dict[str, object] = {name: folder / other for name, other in files.items()}
        data_info(str(folder / file), options | ({"time_column": time_column} if time_column else {}), as_json=True)

    return called(work)


# ---- OGB ----


def _pt(content: object) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def _csv_gz(matrix: np.ndarray) -> bytes:
    return gzip.compress(b"".join(",".join(map(str, row)).encode() + b"\n" for row in matrix.tolist()))


def _ogb_seed(folder: Path) -> None:
    """Writes ogbl_citation2, which has all kinds of file but npz, and ogbl_vessel, which has that."""
    pairs, rng = np.array([link[:2] for link in links()]).T, np.random.default_rng(0)
    raw, split = folder / "ogbl_citation2" / "raw", folder / "ogbl_citation2" / "split" / "time"
    for place in (raw, split):
        place.mkdir(parents=True)
    (raw / "num-node-list.csv.gz").write_bytes(_csv_gz(np.array([[NODES]])))
    (raw / "node-feat.csv.gz").write_bytes(_csv_gz(rng.normal(size=(NODES, 3)).round(3)))
    (raw / "node_year.csv.gz").write_bytes(_csv_gz(rng.integers(1990, 2020, size=(NODES, 1))))
    for name, part in (("train", pairs[:, :120]), ("valid", pairs[:, 120:140]), ("test", pairs[:, 140:])):
        content = {"source_node": part[0], "target_node": torch.from_numpy(part[1].copy())}
        negatives = {} if name == "train" else {"target_node_neg": rng.integers(NODES, size=(part.shape[1], 5))}
        (split / f"{name}.pt").write_bytes(_pt({**content, **negatives}))
    raw, split = folder / "ogbl_vessel" / "raw", folder / "ogbl_vessel" / "split" / "random"
    for place in (raw, split):
        place.mkdir(parents=True)
    features = rng.normal(size=(NODES, 3)).astype(np.float32)
    (raw / "data.npz").write_bytes(_npz(num_nodes_list=np.array([NODES]), node_feat=features))
    parts = {
        name: {"edge": torch.from_numpy(part.T.copy()), "edge_neg": torch.from_numpy(rng.integers(NODES, size=(20, 2)))}
        for name, part in (("train", pairs[:, :120]), ("valid", pairs[:, 120:140]), ("test", pairs[:, 140:]))
    }
    (split / "split_dict.pt").write_bytes(_pt(parts))


def _read_ogb(folder: Path) -> None:
    for name in ("ogbl-citation2", "ogbl-vessel"):
        data_info(name, {"root": folder}, as_json=True)


CITATION, VESSEL = "ogbl_citation2/", "ogbl_vessel/"
_OGB_FILES = (
    *(f"{CITATION}raw/{name}.csv.gz" for name in ("num-node-list", "node-feat", "node_year")),
    *(f"{CITATION}split/time/{name}.pt" for name in ("train", "valid", "test")),
    f"{VESSEL}raw/data.npz",
    f"{VESSEL}split/random/split_dict.pt",
)


def graph_targets() -> list[Target]:
    """The readers of graphs."""
    plain = {"links_csv": lambda: _link_text(",")}
    return [
        Target("CSV", writes(**plain), ("links.csv",), describe("links.csv", "year")),
        Target("TSV", writes(links_tsv=lambda: _link_text("\t")), ("links.tsv",), describe("links.tsv", "year")),
        Target("text", writes(links_txt=lambda: _link_text(" ", named=False)), ("links.txt",), describe("links.txt")),
        Target(
            "CSV.gz",
            writes(links_csv_gz=lambda: gzip.compress(_link_text(","))),
            ("links.csv.gz",),
            describe("links.csv.gz", "year"),
        ),
        Target(
            "TSV.xz",
            writes(links_tsv_xz=lambda: lzma.compress(_link_text("\t"))),
            ("links.tsv.xz",),
            describe("links.tsv.xz"),
        ),
        Target(
            "Parquet",
            writes(links_parquet=lambda: parquet_of(_link_frame())),
            ("links.parquet",),
            describe("links.parquet", "year"),
        ),
        Target(
            "node table CSV",
            writes(**plain, nodes_csv=lambda: _node_frame().to_csv(index=False).encode()),
            ("nodes.csv",),
            describe("links.csv", nodes="nodes.csv"),
        ),
        Target(
            "node table Parquet",
            writes(**plain, nodes_parquet=lambda: parquet_of(_node_frame())),
            ("nodes.parquet",),
            describe("links.csv", nodes="nodes.parquet"),
        ),
        Target(
            "feature table CSV",
            writes(**plain, x_csv=lambda: _feature_frame().to_csv(index=False).encode()),
            ("x.csv",),
            describe("links.csv", features="x.csv"),
        ),
        Target(
            "feature table Parquet",
            writes(**plain, x_parquet=lambda: parquet_of(_feature_frame())),
            ("x.parquet",),
            describe("links.csv", features="x.parquet"),
        ),
        Target("npz split", writes(split_npz=_split), ("split.npz",), describe("split.npz")),
        Target(
            "npz features",
            writes(links_csv=_numbered_links, x_npz=lambda: _npz(x=np.ones((NODES, 2)), y=np.ones(3))),
            ("x.npz",),
            describe("links.csv", features="x.npz"),
        ),
        Target(
            "npy features",
            writes(links_csv=_numbered_links, x_npy=_matrix),
            ("x.npy",),
            describe("links.csv", features="x.npy"),
        ),
        Target("OGB folder", _ogb_seed, _OGB_FILES, called(_read_ogb)),
    ]


def mutations_for(file: str) -> dict[str, Mutation]:
    """All that may happen to a file of that name."""
    suited = next((found for suffix, found in SUITED.items() if file.endswith(suffix)), TEXT)
    return {**BYTES, **suited}
