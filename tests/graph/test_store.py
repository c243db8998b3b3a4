"""A task on disk: what goes in comes out, and damage is told."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from headtail.baselines import mf
from headtail.config import make_config
from headtail.errors import RunError
from headtail.graph.names import NodeNames
from headtail.graph.store import fingerprint, load_task, save_task
from headtail.graph.structure import SpectralBasis
from headtail.graph.task import LinkTask, make_task
from headtail.graph.view import GraphView
from headtail.run_files import GRAPH_FILE, NODES_FILE
from random_graphs import as_links, graph_of, random_links

NODES = 20
NAMES = {
    "numbers": None,
    "strings": pd.Index([f"n°{i}" for i in range(NODES)]),
    "large integers": pd.Index([2**60 + i for i in range(NODES)]),
}
# What nodes are described by: whether by features of their own, and settings of structure.
DESCRIBED: dict[str, tuple[bool, dict[str, object]]] = {
    "own": (True, {"structure": "auto"}),
    "svd": (False, {"structure": 5}),
    "mf": (False, {"structure": 5, "structure_from": "mf"}),
    "own and svd": (True, {"structure": 5}),
    "own and mf": (True, {"structure": 5, "structure_from": "mf"}),
}
WIDTHS = {"own": 2, "svd": 5, "mf": 5, "own and svd": 7, "own and mf": 7}


def make(directed: bool = True, names: pd.Index | None = None, described: bool = False, **settings: object) -> LinkTask:
    times = torch.arange(60) // 6
    graph = graph_of(random_links(NODES, 60, directed), NODES, directed, times=times)
    own = torch.randn(NODES, 2, generator=torch.Generator().manual_seed(0)) if described else None
    graph = replace(graph, names=NodeNames(NODES, names), features=own)
    return make_task(graph, make_config(settings={"structure": 4, "eval_negatives": 3, "device": "cpu", **settings}))


def make_described(kind: str, directed: bool = True) -> LinkTask:
    described, settings = DESCRIBED[kind]
    return make(directed, described=described, **settings)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mf, "FEATURE_EPOCHS", 1)


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


@pytest.mark.parametrize("kind", DESCRIBED)
@pytest.mark.parametrize("directed", [True, False])
def test_features_come_back_for_any_view(tmp_path: Path, kind: str, directed: bool) -> None:
    task = make_described(kind, directed)
    save_task(task, tmp_path)
    back = load_task(tmp_path)
    assert torch.equal(back.features, task.features)
    old, new = task.inputs, back.inputs
    assert new.width == old.width == WIDTHS[kind]
    assert type(new.structure) is type(old.structure)
    fewer = GraphView(NODES, directed, task.train_view.links[:, 5:])
    for view in (task.train_view, task.test_view, fewer):
        assert torch.equal(new.seen_in(view), old.seen_in(view))
    assert torch.equal(new.seen_in(fewer), back.features) == (not isinstance(new.structure, SpectralBasis))
    if task.graph.features is None:
        assert back.graph.features is None
    else:
        assert back.graph.features is not None
        assert torch.equal(back.graph.features, task.graph.features)
    assert fingerprint(back) == fingerprint(task)
    save_task(back, tmp_path / "again")
    assert (tmp_path / "again" / GRAPH_FILE).read_bytes() == (tmp_path / GRAPH_FILE).read_bytes()


def fingerprint_of_one_tensor(task: LinkTask) -> str:
    """Returns the fingerprint as it was defined when all features were one tensor."""
    digest = hashlib.blake2b(digest_size=16)
    digest.update(f"{task.graph.num_nodes} {task.graph.directed} {task.metric}".encode())
    split = task.split
    held_out = [split.valid.positives, split.valid.negatives, split.test.positives, split.test.negatives]
    for part in (split.train, task.features, *held_out):
        assert part is not None
        digest.update(part.contiguous().numpy().tobytes())
    digest.update(pd.util.hash_array(task.graph.names.array()).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("kind", DESCRIBED)
@pytest.mark.parametrize("directed", [True, False])
def test_a_folder_with_features_in_one_tensor_still_loads(tmp_path: Path, kind: str, directed: bool) -> None:
    """So folders were before structure was read off views; nothing told how many columns there are."""
    task = make_described(kind, directed)
    save_task(task, tmp_path)

    def make_old(tensors: dict[str, Tensor], facts: dict[str, object]) -> None:
        for name in task.inputs.tensors():
            del tensors[name]
        del facts["feature_columns"]
        tensors["features"] = task.features
        facts["fingerprint"] = fingerprint_of_one_tensor(task)

    rewrite(tmp_path, make_old)
    back = load_task(tmp_path)
    assert torch.equal(back.features, task.features)
    assert back.inputs.width == WIDTHS[kind]
    assert torch.equal(back.inputs.seen_in(GraphView(NODES, directed, as_links([]))), task.features)


def test_unsigned_names_come_back(tmp_path: Path) -> None:
    names = pd.Index([2**63 + i for i in range(NODES)], dtype="uint64")
    save_task(make(names=names), tmp_path)
    assert load_task(tmp_path).graph.names.array().tolist() == names.tolist()


def test_fingerprints_tell_tasks_apart() -> None:
    base = make()
    others = [make(directed=False), make(seed=1), make(structure=6), make(metric="hits@20"), make(described=True)]
    assert len({fingerprint(task) for task in [base, *others]}) == 6
    assert fingerprint(make()) == fingerprint(base)


def test_fingerprints_tell_apart_what_nodes_are_described_by() -> None:
    tasks = [make_described(kind) for kind in DESCRIBED]
    assert len({fingerprint(task) for task in tasks}) == len(DESCRIBED)


def test_fingerprints_tell_numbers_of_columns_apart() -> None:
    """Seven and eight columns of a directed graph are read off the same basis, and make other models."""
    seven, eight = make(structure=7), make(structure=8)
    assert (seven.inputs.width, eight.inputs.width) == (7, 8)
    assert fingerprint(seven) != fingerprint(eight)


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


PARTS = {
    "own": ["features"],
    "svd": ["structure_per_tail", "structure_per_head"],
    "mf": ["structure_table"],
    "own and svd": ["features", "structure_per_tail", "structure_per_head"],
    "own and mf": ["features", "structure_table"],
}


@pytest.mark.parametrize(("kind", "missing"), [(kind, part) for kind, parts in PARTS.items() for part in parts])
def test_a_missing_tensor_is_told(tmp_path: Path, kind: str, missing: str) -> None:
    save_task(make_described(kind), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: tensors.pop(missing))
    with pytest.raises(RunError, match="damaged"):
        load_task(tmp_path)


@pytest.mark.parametrize(("kind", "changed"), [(kind, part) for kind, parts in PARTS.items() for part in parts])
def test_a_changed_number_of_the_features_is_found(tmp_path: Path, kind: str, changed: str) -> None:
    save_task(make_described(kind), tmp_path)
    rewrite(tmp_path, lambda tensors, facts: tensors[changed][0, 0].add_(1))
    with pytest.raises(RunError, match="fingerprint"):
        load_task(tmp_path)


@pytest.mark.parametrize("columns", [None, 0, 4, 6])
def test_wrong_numbers_of_columns_are_told(tmp_path: Path, columns: int | None) -> None:
    save_task(make(structure=5), tmp_path)

    def change(tensors: dict[str, Tensor], facts: dict[str, object]) -> None:
        del facts["feature_columns"]
        if columns is not None:
            facts["feature_columns"] = columns

    rewrite(tmp_path, change)
    with pytest.raises(RunError, match="damaged"):
        load_task(tmp_path)


def test_no_temporary_files_stay(tmp_path: Path) -> None:
    save_task(make(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([GRAPH_FILE, NODES_FILE])


def rewrite(folder: Path, change: Callable[[dict[str, Tensor], dict[str, object]], object]) -> None:
    """Applies `change` to the tensors and facts of a stored graph."""
    path = folder / GRAPH_FILE
    with safe_open(path, framework="pt") as file:
        facts = json.loads(file.metadata()["facts"])
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    change(tensors, facts)
    save_file(tensors, path, metadata={"facts": json.dumps(facts)})
