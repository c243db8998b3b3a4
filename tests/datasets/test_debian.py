"""The bundled Debian graph is the original one, small, and quick to load."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from headtail.datasets.debian import BUNDLED, GRAPH_FILE, PACKAGES_FILE, debian, debian_packages
from headtail.datasets.deltas import (
    join_planes,
    pack_links,
    pack_rows,
    split_planes,
    unpack_links,
    unpack_rows,
)
from headtail.datasets.raw import RawGraph

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("HEADTAIL_SHARED_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="module")
def graph() -> RawGraph:
    return debian(with_features=False)


def test_sizes(graph: RawGraph) -> None:
    assert graph.num_nodes == 69_529
    assert graph.links.shape == (2, 353_426)
    assert graph.directed
    assert graph.metric == "mrr"
    assert graph.split is not None
    assert graph.split.valid.shape == graph.split.test.shape == (2, 3000)
    assert graph.split.test_negatives is not None
    assert graph.split.test_negatives.shape == (3000, 300)
    assert graph.times is not None
    assert set(np.unique(graph.times)) == {2021, 2023}


def test_names_and_packages(graph: RawGraph) -> None:
    packages = debian_packages()
    assert list(packages.columns) == ["name", "section", "description"]
    assert packages["name"].is_unique
    assert packages.notna().all(axis=None)
    assert graph.names is not None
    assert graph.names[0] == "0ad"
    depends = set(graph.names[graph.links[1][graph.links[0] == graph.names.get_loc("0ad")]])
    assert "0ad-data" in depends


def test_links_load_quickly() -> None:
    start = time.perf_counter()
    debian(with_features=False)
    # Takes 0.4 s; the margin is for a busy machine.
    assert time.perf_counter() - start < 4


def test_bundle_is_small() -> None:
    assert sum(len((BUNDLED / name).read_bytes()) for name in (GRAPH_FILE, PACKAGES_FILE)) < 4.2e6


@pytest.mark.slow
def test_features() -> None:
    features = debian().features
    assert features is not None
    assert features.shape == (69_529, 128)
    assert features.dtype == np.float32
    assert features.std() == pytest.approx(1, abs=0.05)


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "debian.npz").exists(), reason="the shared data folder is absent")
@pytest.mark.slow
def test_equal_to_the_original(graph: RawGraph) -> None:
    assert graph.split is not None
    assert graph.times is not None
    assert graph.split.valid_negatives is not None
    assert graph.split.test_negatives is not None
    with np.load(SHARED / "debian.npz", allow_pickle=False) as original:
        assert graph.num_nodes == int(original["num_nodes"])
        assert graph.directed == bool(original["directed"])
        assert graph.metric == str(original["metric"])
        dated = set(zip(*original["train"].tolist(), original["train_time"].tolist(), strict=True))
        assert set(zip(*graph.links.tolist(), graph.times.tolist(), strict=True)) == dated
        assert graph.links.shape == original["train"].shape
        assert np.array_equal(graph.split.valid, original["valid"])
        assert np.array_equal(graph.split.test, original["test"])
        assert np.array_equal(graph.split.valid_negatives, np.sort(original["valid_neg"], axis=1))
        assert np.array_equal(graph.split.test_negatives, np.sort(original["test_neg"], axis=1))


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "debian-packages.tsv.xz").exists(), reason="the shared data folder is absent")
def test_packages_equal_the_original() -> None:
    import lzma

    with lzma.open(SHARED / "debian-packages.tsv.xz", "rt", encoding="utf-8", newline="\n") as lines:
        rows = [line.rstrip("\n").split("\t")[1:] for line in lines]
    packages = debian_packages()
    assert rows[0] == list(packages.columns)
    assert rows[1:] == packages.to_numpy().tolist()


@pytest.mark.parametrize("top", [0, 1, 255, 256, 70_000])
def test_planes_round_trip(top: int) -> None:
    values = np.random.default_rng(top).integers(0, top + 1, 50)
    values[0] = top
    assert np.array_equal(join_planes(split_planes(values)), values)


def test_negative_numbers_have_no_planes() -> None:
    with pytest.raises(ValueError, match="non-negative"):
        split_planes(np.array([-1]))


def test_rows_and_links_round_trip() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 1000, (7, 9))
    assert np.array_equal(unpack_rows(pack_rows(rows), 7), np.sort(rows, axis=1))
    keys = np.sort(rng.choice(100 * 100, 400, replace=False))
    keys = keys[(keys // 100 != 0) & (keys // 100 != 57)]
    links = np.stack([keys // 100, keys % 100])
    assert np.array_equal(unpack_links(*pack_links(links, 100)), links)
