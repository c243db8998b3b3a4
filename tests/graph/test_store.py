"""A task on disk: what goes in comes out, and damage is told."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from headtail.config import make_config
from headtail.errors import RunError
from headtail.graph.names import NodeNames
from headtail.graph.store import GRAPH_FILE, NODES_FILE, fingerprint, load_task, save_task
from headtail.graph.task import LinkTask, make_task
from random_graphs import graph_of, random_links

NODES = 20
NAMES = {
    "numbers": None,
    "strings": pd.Index([f"n°{i}" for i in range(NODES)]),
    "large integers": pd.Index([2**60 + i for i in range(NODES)]),
}


def make(directed: bool = True, names: pd.Index | None = None, **settings: object) -> LinkTask:
    times = torch.arange(60) // 6
    graph = graph_of(random_links(NODES, 60, directed), NODES, directed, times=times)
    graph = replace(graph, names=NodeNames(NODES, names))
    return make_task(graph, make_config(settings={"structure": 4, "eval_negatives": 3, **settings}))


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("test_graph", ["train", "train+valid"])
@pytest.mark.parametrize("metric", ["mrr", "hits@20"])
def test_round_trip(tmp_path: Path, names: pd.Index | None, directed: bool, test_graph: str, metric: str) -> None:
    task = make(directed, names, test_graph=test_graph, metric=metric)
    save_task(task, tmp_path)
    back = load_task(tmp_path)
    for part in ("train", "train_times"):
        assert torch.equal(getattr(back.split, part), getattr(task.split, part))
    for part in ("valid", "test"):
        old, new = getattr(task.split, part), getattr(back.split, part)
        assert torch.equal(new.positives, old.positives)
        assert torch.equal(new.negatives, old.negatives)
    assert torch.equal(back.features, task.features)
    assert torch.equal(back.test_view.links, task.test_view.links)
    assert torch.equal(back.train_view.links, task.train_view.links)
    assert torch.equal(back.known.col, task.known.col)
    assert back.leaks == task.leaks
    assert (back.metric, back.graph.directed, back.graph.source) == (metric, directed, "a test")
    assert back.graph.cleaning == task.graph.cleaning
    every = torch.arange(NODES)
    assert back.graph.names.of(every) == task.graph.names.of(every)
    assert back.graph.names.find(task.graph.names.of(every)).tolist() == every.tolist()
    assert fingerprint(back) == fingerprint(task)


def test_unsigned_names_come_back(tmp_path: Path) -> None:
    names = pd.Index([2**63 + i for i in range(NODES)], dtype="uint64")
    save_task(make(names=names), tmp_path)
    assert load_task(tmp_path).graph.names.array().tolist() == names.tolist()


def test_fingerprints_tell_tasks_apart() -> None:
    base = make()
    others = [make(directed=False), make(seed=1), make(structure=6), make(metric="hits@20")]
    assert len({fingerprint(task) for task in [base, *others]}) == 5
    assert fingerprint(make()) == fingerprint(base)


@pytest.mark.parametrize("file", [GRAPH_FILE, NODES_FILE])
def test_a_missing_file_is_told(tmp_path: Path, file: str) -> None:
    save_task(make(), tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(RunError, match=f"{file} does not exist"):
        load_task(tmp_path)


@pytest.mark.parametrize("file", [GRAPH_FILE, NODES_FILE])
@pytest.mark.parametrize("damage", ["empty", "cut", "noise"])
def test_a_damaged_file_is_told(tmp_path: Path, file: str, damage: str) -> None:
    save_task(make(), tmp_path)
    path = tmp_path / file
    content = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "noise": b"\xff" * 300}[damage])
    with pytest.raises(RunError, match="damaged"):
        load_task(tmp_path)


def test_a_changed_byte_of_the_links_is_found(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: tensors["train"][0, 0].add_(1))
    with pytest.raises(RunError, match="fingerprint"):
        load_task(tmp_path)


def test_names_of_another_graph_are_found(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    pd.DataFrame({"name": ["a", "b"]}).to_parquet(tmp_path / NODES_FILE)
    with pytest.raises(RunError):
        load_task(tmp_path)


@pytest.mark.parametrize("missing", ["num_nodes", "strategy", "dropped"])
def test_a_missing_fact_is_told(tmp_path: Path, missing: str) -> None:
    save_task(make(), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: facts.pop(missing))
    with pytest.raises(RunError, match=missing):
        load_task(tmp_path)


def test_a_missing_fingerprint_is_told(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: facts.pop("fingerprint"))
    with pytest.raises(RunError):
        load_task(tmp_path)


def test_a_missing_tensor_is_told(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: tensors.pop("features"))
    with pytest.raises(RunError, match="features"):
        load_task(tmp_path)


def test_no_temporary_files_stay(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([GRAPH_FILE, NODES_FILE])


def rewrite(folder: Path, change) -> None:  # type: ignore[no-untyped-def]
    """Applies `change` to the tensors and facts of a stored graph."""
    path = folder / GRAPH_FILE
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["facts"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    change(tensors, facts)
    save_file(tensors, path, metadata={"facts": json.dumps(facts)})
