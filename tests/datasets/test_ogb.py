"""OGB's own folders: every layout that it ships, real ogbl-ddi link by link, and files that are not to be trusted."""

import gzip
import os
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from headtail import load
from headtail.config import make_config
from headtail.datasets.catalog import DATASETS
from headtail.datasets.ogb import LAYOUTS, read_ogb
from headtail.datasets.ogb_files import read_pt
from headtail.datasets.raw import RawGraph
from headtail.errors import DataError
from headtail.graph.graph import Graph
from headtail.graph.task import prove_split

Parts = dict[str, dict[str, Any]]
PAYLOADS: dict[str, Callable[[NDArray[Any]], object]] = {"tensor": torch.from_numpy, "numpy": np.asarray}
NODES = 6


def rows(*pairs: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(pairs, dtype=np.int64)


def pair_split() -> Parts:
    """A split of undirected pairs, as of ogbl-ddi, ogbl-ppa and ogbl-vessel."""
    return {
        "train": {"edge": rows((0, 1), (2, 1), (2, 3), (3, 4))},
        "valid": {"edge": rows((0, 2)), "edge_neg": rows((0, 5), (1, 5))},
        "test": {"edge": rows((1, 3), (4, 0)), "edge_neg": rows((2, 5), (3, 5), (4, 5))},
    }


def collab_split() -> Parts:
    """A multigraph with years and weights: 0-1 in three years, one training link that is a test link."""
    parts = pair_split()
    parts["train"] = {
        "edge": rows((0, 1), (2, 1), (1, 0), (0, 1), (3, 1)),
        "weight": rows((1,), (2,), (1,), (3,), (1,))[:, 0],
        "year": np.array([2012, 2010, 2007, 2015, 2011]),
    }
    for part in ("valid", "test"):
        count = len(parts[part]["edge"])
        parts[part] |= {"weight": np.ones(count, dtype=np.int64), "year": np.full(count, 2018)}
    return parts


def citation_split() -> Parts:
    return {
        "train": {"source_node": np.array([0, 2, 2, 5]), "target_node": np.array([1, 1, 3, 4])},
        "valid": {
            "source_node": np.array([2]),
            "target_node": np.array([4]),
            "target_node_neg": rows((0, 5, 0)),
        },
        "test": {
            "source_node": np.array([5, 2]),
            "target_node": np.array([0, 5]),
            "target_node_neg": rows((1, 2, 3), (0, 0, 4)),
        },
    }


SPLITS: dict[str, tuple[str, Callable[[], Parts]]] = {
    "ogbl-collab": ("time", collab_split),
    "ogbl-ppa": ("throughput", pair_split),
    "ogbl-citation2": ("time", citation_split),
    "ogbl-ddi": ("target", pair_split),
    "ogbl-vessel": ("random", pair_split),
}
YEARS = [1990, 1991, 1992, 1993, 1994, 1995]


def write_csv(path: Path, table: NDArray[Any]) -> None:
    text = "\n".join(",".join(str(value) for value in row) for row in table) + "\n"
    path.write_bytes(gzip.compress(text.encode()))


def write_nodes(name: str, raw: Path, num_nodes: int = NODES) -> None:
    """Writes what OGB ships of the nodes, also what is not read."""
    raw.mkdir(parents=True)
    features = np.arange(num_nodes * 2).reshape(num_nodes, 2) / 8
    if name == "ogbl-vessel":
        counts = {"num_nodes_list": np.array([num_nodes]), "num_edges_list": np.array([2])}
        np.savez(raw / "data.npz", edge_index=rows((0, 1), (1, 0)).T, node_feat=features, **counts)
        return
    write_csv(raw / "num-node-list.csv.gz", rows((num_nodes,)))
    write_csv(raw / "num-edge-list.csv.gz", rows((4,)))
    write_csv(raw / "edge.csv.gz", rows((0, 1)))
    if name != "ogbl-ddi":
        write_csv(raw / "node-feat.csv.gz", features)
    if name == "ogbl-citation2":
        write_csv(raw / "node_year.csv.gz", np.array(YEARS)[:, None])


def write_split(folder: Path, parts: Parts, payload: str = "tensor", whole: bool = False, **options: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    made = {part: {key: PAYLOADS[payload](array) for key, array in held.items()} for part, held in parts.items()}
    if whole:
        torch.save(made, folder / "split_dict.pt", **options)
    else:
        for part, content in made.items():
            torch.save(content, folder / f"{part}.pt", **options)


def ship(name: str, root: Path, payload: str = "tensor", whole: bool = False, **options: Any) -> Path:
    """Writes a small data set as OGB lays it out; returns its folder."""
    folder = root / name.replace("-", "_")
    split, parts = SPLITS[name]
    write_nodes(name, folder / "raw")
    write_split(folder / "split" / split, parts(), payload, whole, **options)
    return folder


def pairs(links: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(head), int(tail)) for head, tail in links.T}


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("whole", [False, True], ids=["three files", "one file"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read(tmp_path: Path, name: str, whole: bool, payload: str) -> None:
    ship(name, tmp_path, payload, whole)
    graph = load(name, root=tmp_path)
    assert (graph.source, graph.num_nodes, graph.directed) == (name, NODES, name == "ogbl-citation2")
    metrics = {"ogbl-collab": "hits@50", "ogbl-ppa": "hits@100", "ogbl-citation2": "mrr", "ogbl-ddi": "hits@20"}
    assert graph.metric == metrics.get(name)
    assert graph.valid is not None
    assert graph.test is not None
    assert graph.test.negatives is not None
    if name == "ogbl-citation2":
        assert graph.links.tolist() == [[0, 2, 2, 5], [1, 1, 3, 4]]
        assert graph.valid.positives.tolist() == [[2], [4]]
        assert graph.test.positives.tolist() == [[5, 2], [0, 5]]
        assert graph.test.negatives.tolist() == [[1, 2, 3], [0, 0, 4]]
    else:
        expected = {(0, 1), (1, 2), (1, 3)} if name == "ogbl-collab" else {(0, 1), (1, 2), (2, 3), (3, 4)}
        assert pairs(graph.links) == expected
        assert graph.valid.positives.tolist() == [[0], [2]]
        assert graph.test.positives.tolist() == [[1, 4], [3, 0]]
        assert graph.test.negatives.tolist() == [[2, 3, 4], [5, 5, 5]]
    if name in ("ogbl-ppa", "ogbl-ddi"):
        assert graph.features is None
    else:
        assert graph.features is not None
        assert graph.features.tolist() == [[i / 4, i / 4 + 1 / 8] for i in range(NODES)]


def test_a_repeated_collaboration_is_dated_by_its_first_year(tmp_path: Path) -> None:
    ship("ogbl-collab", tmp_path)
    graph = load("ogbl-collab", root=tmp_path)
    assert graph.cleaning.duplicates == 2
    assert dated(graph) == {(0, 1): 2007, (1, 2): 2010, (1, 3): 2011}


def dated(graph: Graph) -> dict[tuple[int, int], int]:
    assert graph.times is not None
    return {(h, t): year for (h, t), year in zip(graph.links.T.tolist(), graph.times.tolist(), strict=True)}


def test_a_citation_has_the_year_of_the_citing_paper(tmp_path: Path) -> None:
    ship("ogbl-citation2", tmp_path)
    assert dated(load("ogbl-citation2", root=tmp_path)) == {(0, 1): 1990, (2, 1): 1992, (2, 3): 1992, (5, 4): 1995}


def test_the_leak_of_collab_is_refused_dropped_or_kept(tmp_path: Path) -> None:
    ship("ogbl-collab", tmp_path)
    graph = load("ogbl-collab", root=tmp_path)
    with pytest.raises(DataError, match="leaks: 1 links"):
        prove_split(graph, make_config())
    assert prove_split(graph, make_config(settings={"drop_leaks": True})).leaks.dropped == 1
    assert prove_split(graph, make_config(settings={"protocol": "ogb"})).leaks.kept == 1


def test_vessel_needs_a_metric_and_says_so_before_training(tmp_path: Path) -> None:
    ship("ogbl-vessel", tmp_path)
    graph = load("ogbl-vessel", root=tmp_path)
    with pytest.raises(DataError, match=r"ogbl-vessel brings negatives .* choose hits@K as metric"):
        prove_split(graph, make_config())
    assert prove_split(graph, make_config(settings={"metric": "hits@2"})).metric == "hits@2"


def test_root_may_be_the_folder_itself_and_vessel_may_be_split_by_space(tmp_path: Path) -> None:
    folder = ship("ogbl-vessel", tmp_path)
    (folder / "split" / "random").rename(folder / "split" / "spatial")
    assert read_ogb("ogbl-vessel", folder).num_nodes == NODES


def test_links_are_those_of_the_default_folder_without_a_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ship("ogbl-ddi", tmp_path / "dataset")
    monkeypatch.chdir(tmp_path)
    assert load("ogbl-ddi").links.shape[1] == 4


@pytest.mark.shared
def test_real_ddi_is_the_same_graph_from_either_file(tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "ogbl-ddi.npz"
    with np.load(source) as arrays:
        parts = {part: {"edge": arrays[part].T.astype(np.int64)} for part in ("train", "valid", "test")}
        for part in ("valid", "test"):
            parts[part]["edge_neg"] = arrays[f"{part}_neg"].T.astype(np.int64)
        folder = tmp_path / "ogbl_ddi"
        write_nodes("ogbl-ddi", folder / "raw", int(arrays["num_nodes"]))
    write_split(folder / "split" / "target", parts)
    ours, truth = load("ogbl-ddi", root=tmp_path), load(source)
    assert ours.links.shape == (2, 1_067_911)
    assert torch.equal(ours.links, truth.links)
    for part in ("valid", "test"):
        mine, theirs = getattr(ours, part), getattr(truth, part)
        assert torch.equal(mine.positives, theirs.positives)
        assert torch.equal(mine.negatives, theirs.negatives)
    assert (ours.num_nodes, ours.directed, ours.metric) == (truth.num_nodes, truth.directed, truth.metric)
    assert ours.cleaning == truth.cleaning
    assert ours.features is None


# ---- files that run nothing ----


class Hostile:
    """Pickles as a call that leaves a mark, by a module that torch blocks or by one that it only does not know."""

    def __init__(self, call: Callable[..., object], mark: Path) -> None:
        self.call, self.mark = call, mark

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call, (str(self.mark),) if self.call is os.mkdir else (__file__, str(self.mark))


@pytest.mark.parametrize("call", [os.mkdir, shutil.copyfile])
@pytest.mark.parametrize("form", ["zip", "legacy", "plain pickle", "array of objects"])
def test_a_hostile_file_is_refused_and_not_run(tmp_path: Path, form: str, call: Callable[..., object]) -> None:
    path, mark = ship("ogbl-ddi", tmp_path) / "split" / "target" / "train.pt", tmp_path / "mark"
    content: dict[str, object] = {"edge": Hostile(call, mark)}
    if form == "plain pickle":
        path.write_bytes(pickle.dumps(content, protocol=2))
    elif form == "array of objects":
        torch.save({"edge": np.array([Hostile(call, mark)], dtype=object)}, path)
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(DataError) as caught:
        load("ogbl-ddi", root=tmp_path)
    assert not mark.exists()
    assert str(path) in str(caught.value)
    assert "fetch it again" in str(caught.value)
    if form in ("zip", "legacy"):
        assert call.__name__ in str(caught.value)
        assert "nothing in a data file is run" in str(caught.value)
    torch.load(path, weights_only=False) if form != "plain pickle" else pickle.loads(path.read_bytes())
    assert mark.exists()  # it would have run


@pytest.mark.parametrize("payload", PAYLOADS)
def test_files_of_old_torch_are_read_too(tmp_path: Path, payload: str) -> None:
    ship("ogbl-ddi", tmp_path, payload, _use_new_zipfile_serialization=False)
    assert load("ogbl-ddi", root=tmp_path).links.shape[1] == 4


@pytest.mark.parametrize("kind", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"])
def test_arrays_of_every_number_are_read(tmp_path: Path, kind: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(kind)
    torch.save({"a": array, "turned": array.T}, tmp_path / "a.pt")
    back = read_pt(tmp_path / "a.pt")
    assert back["a"].dtype == array.dtype
    assert np.array_equal(back["a"], array)
    assert np.array_equal(back["turned"], array.T)


def test_arrays_of_numpy_1_are_read(tmp_path: Path) -> None:
    new, old = tmp_path / "new.pt", tmp_path / "old.pt"
    torch.save({"edge": rows((1, 2))}, new)
    with zipfile.ZipFile(new) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"numpy._core.", b"numpy.core."))
    assert b"numpy.core.multiarray" in old.read_bytes()
    assert read_pt(old)["edge"].tolist() == [[1, 2]]


# ---- what is told about folders that cannot be read ----


def told(name: str, root: Path, **options: Any) -> str:
    """Returns what is said, which must be one sentence."""
    with pytest.raises(DataError) as caught:
        load(name, root=root, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_files_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    text = told("ogbl-citation2", tmp_path)
    for file in ("num-node-list.csv.gz", "node-feat.csv.gz", "node_year.csv.gz"):
        assert f"raw/{file}" in text
    for part in ("train", "valid", "test"):
        assert f"split/time/{part}.pt" in text
    assert "--download" in text
    assert f"D('ogbl-citation2', root='{tmp_path}')" in text
    folder = ship("ogbl-ddi", tmp_path)
    (folder / "split" / "target" / "valid.pt").unlink()
    text = told("ogbl-ddi", tmp_path, download=True)
    assert f"{folder} lacks split/target/valid.pt; " in text
    assert "remove that folder" in text


@pytest.mark.parametrize(
    "damage",
    [b"", b"no gzip", gzip.compress(b"6\n")[:-9], gzip.compress(b"six\n")],
    ids=["empty", "no gzip", "cut", "words"],  # compressed bytes hold the time, and names of tests must stay
)
def test_damaged_counts_are_told(tmp_path: Path, damage: bytes) -> None:
    path = ship("ogbl-ddi", tmp_path) / "raw" / "num-node-list.csv.gz"
    path.write_bytes(damage)
    assert f"{path} is damaged or" in told("ogbl-ddi", tmp_path)


def test_an_empty_field_is_told(tmp_path: Path) -> None:
    path = ship("ogbl-citation2", tmp_path) / "raw" / "node_year.csv.gz"
    path.write_bytes(gzip.compress(b"1990\n1991\n1992\nNA\n1994\n1995\n"))
    assert f"{path} is damaged" in told("ogbl-citation2", tmp_path)
    assert "1 fields of column 1 are empty" in told("ogbl-citation2", tmp_path)


@pytest.mark.parametrize("damage", [b"", b"noise" * 100, b"PK\x03\x04"])
def test_a_damaged_split_is_told(tmp_path: Path, damage: bytes) -> None:
    path = ship("ogbl-ddi", tmp_path) / "split" / "target" / "test.pt"
    path.write_bytes(damage)
    assert f"{path} is damaged or no .pt file" in told("ogbl-ddi", tmp_path)


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("train", {"edges": rows((0, 1))}, "has no entry 'edge'; it holds: edges"),
        ("train", {}, "has no entry 'edge'; it holds: nothing"),
        ("valid", {"edge": rows((0, 2))}, "has no entry 'edge_neg'; it holds: edge"),
        ("train", {"edge": rows((0, 1, 2))}, "'edge' is int64 of shape [1, 3], expected integers [any, 2]"),
        ("train", {"edge": np.zeros((2, 2))}, "'edge' is float64 of shape [2, 2], expected integers [any, 2]"),
        ("train", {"edge": "0 1"}, "expected integers [any, 2]"),
        ("train", {"edge": rows((0, NODES))}, f"names the nodes 0 to {NODES}, but raw/ says that there are {NODES}"),
        ("test", {"edge": rows((0, 1)), "edge_neg": rows((-1, 0))}, "names the nodes -1 to 0"),
        ("train", [1], "holds list, expected a dictionary"),
    ],
)
def test_a_split_that_holds_something_else_is_told(tmp_path: Path, part: str, content: object, message: str) -> None:
    path = ship("ogbl-ddi", tmp_path) / "split" / "target" / f"{part}.pt"
    torch.save(content, path)
    text = told("ogbl-ddi", tmp_path)
    assert str(path) in text
    assert message in text


@pytest.mark.parametrize(
    ("name", "part", "key", "array", "message"),
    [
        ("ogbl-collab", "train", "year", np.array([2000]), "'year' is int64 of shape [1], expected integers [5]"),
        ("ogbl-citation2", "train", "target_node", np.array([1]), "expected integers [4]"),
        ("ogbl-citation2", "test", "target_node_neg", rows((1, 2)), "shape [1, 2], expected integers [2, any]"),
    ],
)
def test_parts_that_do_not_fit_are_told(
    tmp_path: Path, name: str, part: str, key: str, array: NDArray[Any], message: str
) -> None:
    folder = ship(name, tmp_path)
    split, parts = SPLITS[name]
    changed = parts()
    changed[part][key] = array
    write_split(folder / "split" / split, changed)
    assert message in told(name, tmp_path)


def test_a_whole_split_without_a_part_is_told(tmp_path: Path) -> None:
    folder = ship("ogbl-vessel", tmp_path, whole=True)
    torch.save({"train": {}, "valid": {}}, folder / "split" / "random" / "split_dict.pt")
    assert "has no part 'test'" in told("ogbl-vessel", tmp_path)


@pytest.mark.parametrize(
    ("name", "file", "table", "message"),
    [
        ("ogbl-collab", "node-feat.csv.gz", np.zeros((4, 2)), "has 4 rows, but the graph has 6 nodes"),
        ("ogbl-citation2", "node_year.csv.gz", rows((1990,)), "holds 1 years, but there are 6 nodes"),
        ("ogbl-ddi", "num-node-list.csv.gz", rows((6,), (6,)), "must hold one number"),
        ("ogbl-ddi", "num-node-list.csv.gz", rows((4,)), "names the nodes 0 to 4, but raw/ says that there are 4"),
    ],
)
def test_nodes_of_another_number_are_told(
    tmp_path: Path, name: str, file: str, table: NDArray[Any], message: str
) -> None:
    write_csv(ship(name, tmp_path) / "raw" / file, table)
    assert message in told(name, tmp_path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"num_nodes_list": np.array([6])}, "has no array 'node_feat'; it holds: num_nodes_list"),
        ({"num_nodes_list": np.array([3, 3]), "node_feat": np.zeros((6, 2))}, "must hold one number"),
        ({"num_nodes_list": np.array([6]), "node_feat": np.zeros((5, 2))}, "has 5 rows"),
    ],
)
def test_wrong_arrays_of_vessel_are_told(tmp_path: Path, arrays: Mapping[str, Any], message: str) -> None:
    folder = ship("ogbl-vessel", tmp_path)
    np.savez(folder / "raw" / "data.npz", **arrays)
    assert message in told("ogbl-vessel", tmp_path)


@pytest.mark.parametrize("options", [{"root": "x"}, {"download": True}])
def test_options_of_ogb_are_refused_elsewhere(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=r"apply to OGB's data sets only: ogbl-collab"):
        load("planted", **options)


def test_a_misspelt_name_is_told_first() -> None:
    with pytest.raises(DataError, match="did you mean 'ogbl-ddi'"):
        load("ogbl-dd", root="x")


def test_every_layout_has_a_name() -> None:
    assert {name for name in DATASETS if name.startswith("ogbl-")} == set(LAYOUTS)


# ---- downloading ----

OGB_URL = """
import shutil, zipfile
def download_url(url, folder):
    print("Downloading", url)
    if "nowhere" in url:
        raise OSError("no route to host")
    return shutil.copy(url, folder)
def extract_zip(path, folder):
    zipfile.ZipFile(path).extractall(folder)
"""


@pytest.fixture
def fake_ogb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `ogb` of the same shape, whose master file points at an archive on disk."""
    site, shop = tmp_path / "site", tmp_path / "shop"
    for package in ("ogb", "ogb/utils", "ogb/linkproppred"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
    (site / "ogb" / "utils" / "url.py").write_text(OGB_URL)
    ship("ogbl-ddi", shop).rename(shop / "ddi")
    with zipfile.ZipFile(tmp_path / "ddi.zip", "w") as archive:
        for path in sorted((shop / "ddi").rglob("*.*")):
            archive.write(path, path.relative_to(shop))
    (tmp_path / "collab.zip").write_bytes(b"cut off")
    columns = {
        "": ("download_name", "url"),
        "ogbl-ddi": ("ddi", str(tmp_path / "ddi.zip")),
        "ogbl-collab": ("collab", str(tmp_path / "collab.zip")),
        "ogbl-ppa": ("ppassoc", "http://nowhere/ppassoc.zip"),
    }
    lines = [",".join(columns), *(",".join(line) for line in zip(*columns.values(), strict=True))]
    (site / "ogb" / "linkproppred" / "master.csv").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(str(site))
    for module in [name for name in sys.modules if name.split(".")[0] == "ogb"]:
        monkeypatch.delitem(sys.modules, module)
    return tmp_path / "dataset"


def forget_ogb() -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "ogb"]:
        del sys.modules[module]


def test_a_download_lands_where_ogb_would_put_it(fake_ogb: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_ogb.mkdir()
    try:
        graph: RawGraph = DATASETS["ogbl-ddi"](root=fake_ogb, download=True)
        assert graph.links.shape == (2, 4)
        assert [path.name for path in fake_ogb.iterdir()] == ["ogbl_ddi"]
        captured = capsys.readouterr()
        assert (captured.out, "Downloading" in captured.err) == ("", True)
        (fake_ogb.parent / "ddi.zip").unlink()
        assert load("ogbl-ddi", root=fake_ogb, download=True).num_nodes == NODES  # what is there is not fetched again
        assert "no route to host" in told("ogbl-ppa", fake_ogb, download=True)
        assert "not a zip file" in told("ogbl-collab", fake_ogb, download=True)
        assert [path.name for path in fake_ogb.iterdir()] == ["ogbl_ddi"]
        assert "does not know ogbl-vessel" in told("ogbl-vessel", fake_ogb, download=True)
    finally:
        forget_ogb()


def test_nothing_is_downloaded_unasked_or_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "--download" in told("ogbl-ddi", tmp_path)
    assert "pip install 'headtail[ogb]'" in told("ogbl-ddi", tmp_path, download=True)
    assert list(tmp_path.iterdir()) == []
