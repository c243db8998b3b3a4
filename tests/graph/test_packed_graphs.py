"""Packed graphs hold what reading the same files gives, and train to the same weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pack_case import NODES, write_files

from headtail import LinkPredictor, load
from headtail.errors import ConfigError, DataError, HeadtailError, RunError
from headtail.graph.graph import Graph
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.packed.hold_out import HoldOut
from headtail.graph.packed.pack import pack
from headtail.graph.task import make_task
from headtail.graph.view import GraphView
from tiny_runs import history, predictor, same_weights, trained, weights

pytest.importorskip("duckdb")


def packed(folder: Path, **options: Any) -> PackedGraph:
    pack([folder / "links.parquet"], folder / "graph.ht", **options)
    graph = load(folder / "graph.ht")
    assert isinstance(graph, PackedGraph)
    return graph


def resident(graph: PackedGraph) -> Graph:
    """Returns a packed graph with its split in memory, as a reader would have made it."""
    names = ("source", "num_nodes", "directed", "names", "cleaning", "features", "valid", "test")
    return Graph(**{name: getattr(graph, name) for name in names}, links=graph.links.clone())


@pytest.mark.slow
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize(
    ("named", "options"),
    [
        (False, {"features": "x.npy"}),
        (True, {"features": "x.npy", "nodes": "nodes.csv"}),
        (True, {}),
        (False, {"time_column": "year"}),
    ],
)
def test_packing_a_given_split_is_reading_it(
    named: bool, options: dict[str, str], directed: bool, tmp_path: Path
) -> None:
    write_files(tmp_path, named, directed)
    there = {name: value if name == "time_column" else tmp_path / value for name, value in options.items()}
    split = {"valid": tmp_path / "valid.csv", "test": tmp_path / "test.csv", "directed": directed}
    read = load(tmp_path / "links.csv", **there, **split)
    mapped = packed(tmp_path, **there, **split)
    assert torch.equal(mapped.links, read.links)
    assert mapped.cleaning == read.cleaning
    assert mapped.cleaning.self_loops == 2
    assert mapped.cleaning.duplicates >= 40
    assert mapped.names.array().tolist() == read.names.array().tolist()
    for part in ("valid", "test"):
        assert torch.equal(getattr(mapped, part).positives, getattr(read, part).positives)
    for one, other in ((mapped.features, read.features), (mapped.times, read.times)):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)  # type: ignore[arg-type]
    if read.features is not None:
        one, other = (trained(graph) for graph in (read, mapped))
        assert same_weights(weights(one), weights(other))
        assert history(one) == history(other)
        assert one.evaluate()["mrr"] == other.evaluate()["mrr"]


@pytest.mark.parametrize("directed", [True, False])
def test_rows_are_those_of_the_links(directed: bool, tmp_path: Path) -> None:
    write_files(tmp_path, directed=directed)
    graph = packed(tmp_path, features=tmp_path / "x.npy", directed=directed)
    assert graph.valid is not None
    assert graph.test is not None
    task, other = (make_task(one, predictor().config) for one in (graph, resident(graph)))
    for name in ("out_rows", "in_rows", "neighbours"):
        ours, theirs = getattr(task.train_view, name), getattr(other.train_view, name)
        assert torch.equal(ours.row_ptr, theirs.row_ptr)
        assert torch.equal(ours.col, theirs.col)
        assert torch.equal(ours.row, theirs.row)
    assert torch.equal(task.known.col, other.known.col)
    assert task.leaks == other.leaks
    # Every link of the file is in exactly one part.
    every = pd.read_parquet(tmp_path / "links.parquet")[["from", "to"]].to_numpy()
    every = every[every[:, 0] != every[:, 1]] if directed else np.sort(every[every[:, 0] != every[:, 1]], axis=1)
    parts = torch.cat([graph.links, graph.valid.positives, graph.test.positives], dim=1).T.tolist()
    assert sorted(map(tuple, parts)) == sorted({tuple(map(int, pair)) for pair in every})


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [{}, {"method": "symmetric", "batches": "edges"}, {"reverse": True}, {"normalisation": "symmetric"}]
)
def test_every_method_learns_the_same_from_files(settings: dict[str, Any], tmp_path: Path) -> None:
    write_files(tmp_path)
    graph = packed(tmp_path, features=tmp_path / "x.npy")
    one, other = trained(graph, **settings), trained(resident(graph), **settings)
    assert same_weights(weights(one), weights(other))
    assert one.evaluate()["mrr"] == other.evaluate()["mrr"]


@pytest.mark.slow
def test_the_strong_preset_learns_the_same_from_files(tmp_path: Path) -> None:
    write_files(tmp_path)
    graph = packed(tmp_path, time_column="year", features=tmp_path / "x.npy")
    assert graph.strategy == "time"
    assert graph.times is not None
    read = replace(resident(graph), times=graph.times.clone())
    small = {"preset": "strong", "epochs": 2, "hidden": 8, "eval_negatives": 20, "device": "cpu"}
    one, other = (LinkPredictor(**small).fit(each) for each in (graph, read))
    assert same_weights(weights(one), weights(other))


def test_a_split_in_time_keeps_newer_links_apart(tmp_path: Path) -> None:
    write_files(tmp_path)
    graph = packed(tmp_path, time_column="year", hold_out=HoldOut(most=10))
    every = pd.read_parquet(tmp_path / "links.parquet")
    first = every[every["from"] != every["to"]].groupby(["from", "to"])["year"].min()
    assert graph.valid is not None
    assert graph.test is not None
    years = [
        {int(first[pair]) for pair in map(tuple, links.T.tolist())}
        for links in (graph.links, graph.valid.positives, graph.test.positives)
    ]
    assert max(years[0]) < min(years[1])
    assert max(years[1]) < min(years[2])
    assert graph.valid.positives.shape[1] == graph.test.positives.shape[1] == 10
    # What is neither learned from nor ranked is still no negative.
    assert graph.known.col.numel() == len(first)
    assert bool(graph.known.contains(*torch.from_numpy(np.array(list(first.index)).T)).all())


@pytest.mark.slow
def test_a_run_on_a_packed_graph_is_read_back(tmp_path: Path) -> None:
    write_files(tmp_path, named=True)
    graph = packed(tmp_path)
    model = predictor(structure=8).fit(graph, tmp_path / "run")
    assert (tmp_path / "run" / "graph.safetensors").stat().st_size < 60_000
    again = LinkPredictor.load(tmp_path / "run", "cpu")
    assert again.evaluate()["mrr"] == model.evaluate()["mrr"]
    assert again.recommend("n003", k=3).equals(model.recommend("n003", k=3))
    (tmp_path / "graph.ht").rename(tmp_path / "run" / "graph.ht")
    assert LinkPredictor.load(tmp_path / "run", "cpu").evaluate()["mrr"] == model.evaluate()["mrr"]
    (tmp_path / "run" / "graph.ht").rename(tmp_path / "elsewhere")
    with pytest.raises(RunError, match=r"graph\.ht, which is not there; put it back"):
        LinkPredictor.load(tmp_path / "run", "cpu")
    pack([tmp_path / "links.csv"], tmp_path / "graph.ht", hold_out=HoldOut(seed=1))
    with pytest.raises(RunError, match="is not the packed graph that"):
        LinkPredictor.load(tmp_path / "run", "cpu")


def test_several_files_and_compressed_text_are_one_graph(tmp_path: Path) -> None:
    files = write_files(tmp_path)
    files.frame[:100].to_csv(tmp_path / "one.csv.gz", index=False)
    files.frame[100:].to_csv(tmp_path / "two.tsv", index=False, sep="\t")
    whole = packed(tmp_path)
    pack([tmp_path / "one.csv.gz", tmp_path / "two.tsv"], tmp_path / "parts.ht")
    assert load(tmp_path / "parts.ht").digest == whole.digest  # type: ignore[attr-defined]


def refused(folder: Path, kind: type[HeadtailError], message: str, **options: Any) -> None:
    links = options.pop("links", [folder / "links.csv"])
    with pytest.raises(kind, match=message):
        pack(links, folder / "graph.ht", **options)
    assert not (folder / "graph.ht").exists()


def test_what_cannot_be_packed_is_refused_in_a_sentence(tmp_path: Path) -> None:
    write_files(tmp_path, named=True)
    (tmp_path / "empty.csv").write_text("from,to\na,\n")
    (tmp_path / "torn.csv").write_text("from,to\na,b\nc\n")
    (tmp_path / "loop.csv").write_text("a,b\nx,x\n")
    (tmp_path / "links.txt").write_text("1 2\n")
    (tmp_path / "leak.csv").write_text((tmp_path / "links.csv").read_text())
    bad = np.load(tmp_path / "x.npy")
    bad[7, 2] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    np.save(tmp_path / "short.npy", bad[:9])
    nodes = {"nodes": tmp_path / "nodes.csv"}
    refused(tmp_path, DataError, "there is no file", links=[tmp_path / "none.csv"])
    refused(tmp_path, DataError, "convert the file", links=[tmp_path / "links.txt"])
    refused(tmp_path, DataError, "1 ids are empty", links=[tmp_path / "empty.csv"])
    refused(tmp_path, DataError, "cannot be read: .* Line: 3", links=[tmp_path / "torn.csv"])
    refused(tmp_path, DataError, "no links but self-loops", links=[tmp_path / "loop.csv"])
    refused(tmp_path, DataError, "has no column 'when'", time_column="when")
    refused(tmp_path, DataError, "ids are not all integers", features=tmp_path / "x.npy")
    refused(tmp_path, DataError, "has 9 rows, but the graph has 60", features=tmp_path / "short.npy", **nodes)
    refused(tmp_path, DataError, "row 7, column 2 is NaN", features=tmp_path / "bad.npy", **nodes)
    refused(tmp_path, DataError, "a split needs both", valid=tmp_path / "valid.csv")
    leak = {"valid": tmp_path / "leak.csv", "test": tmp_path / "test.csv"}
    refused(tmp_path, DataError, "validation or test links hold self-loops", **leak)
    leak["valid"] = tmp_path / "test.csv"
    links = [tmp_path / "links.csv", tmp_path / "test.csv"]
    refused(tmp_path, DataError, "30 links to train on are also held out", links=links, **leak)
    with pytest.raises(ConfigError, match="not 'source'"):
        HoldOut(split="source")


def test_leaks_are_dropped_where_that_is_asked_for(tmp_path: Path) -> None:
    write_files(tmp_path)
    split = {"valid": tmp_path / "valid.csv", "test": tmp_path / "test.csv"}
    pack([tmp_path / "links.csv"], tmp_path / "clean.ht", **split)
    links = [tmp_path / f"{name}.csv" for name in ("links", "test")]
    manifest = pack(links, tmp_path / "graph.ht", drop_leaks=True, **split)
    clean, graph = load(tmp_path / "clean.ht"), load(tmp_path / "graph.ht")
    assert manifest.dropped == 30
    assert torch.equal(graph.links, clean.links)
    assert "30 overlapping training links were dropped" in str(make_task(graph, predictor().config).leaks)


def test_a_packed_graph_keeps_its_own_split(tmp_path: Path) -> None:
    write_files(tmp_path)
    graph = packed(tmp_path)
    with pytest.raises(DataError, match="brings its own split"):
        make_task(graph, predictor(split="random").config)
    with pytest.raises(ConfigError, match="packed with a clean split, which protocol ogb would change"):
        make_task(graph, predictor(protocol="ogb").config)
    with pytest.raises(DataError, match="leave out directed, features"):
        load(tmp_path / "graph.ht", features="x.npy", directed=True)
    assert isinstance(graph.view.to("cpu"), GraphView)
    assert graph.view.to("cpu") is graph.view


@pytest.mark.slow
def test_more_nodes_than_links_name_are_kept(tmp_path: Path) -> None:
    write_files(tmp_path)
    x = np.concatenate([np.load(tmp_path / "x.npy"), np.ones((5, 6))])
    np.save(tmp_path / "x.npy", x)
    graph = packed(tmp_path, features=tmp_path / "x.npy")
    assert graph.num_nodes == NODES + 5
    assert graph.view.message_rows.degrees[-5:].tolist() == [1] * 5
    assert np.isfinite(trained(graph).evaluate()["mrr"])
