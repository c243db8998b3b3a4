"""A task on disk: links, split, features and names, so that a run folder is complete in itself."""

import hashlib
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from torch import Tensor

from headtail.datasets.parquet import read_columns
from headtail.errors import RunError
from headtail.files import read_tensors, replacing, write_tensors
from headtail.given import is_packed
from headtail.graph.audit import LeakAudit
from headtail.graph.features import read_features
from headtail.graph.graph import Cleaning, Graph, HeldOut
from headtail.graph.names import NodeNames
from headtail.graph.packed.graph import PackedGraph, open_packed
from headtail.graph.restored import check_tensors
from headtail.graph.split import Split
from headtail.graph.task import LinkTask, training_view
from headtail.run_files import GRAPH_FILE, NODES_FILE


def fingerprint(task: LinkTask) -> str:
    """Returns a short hash of everything a model of this task depends on."""
    digest = hashlib.blake2b(digest_size=16)
    split, packed = task.split, task.graph if isinstance(task.graph, PackedGraph) else None
    digest.update(f"{task.graph.num_nodes} {task.graph.directed} {task.metric}".encode())
    features = task.inputs
    if features.structure is not None:
        digest.update(f"{features.width} columns".encode())
    parts = [split.train, *features.tensors().values()]
    if packed is not None:  # its links, features and names were hashed when they were packed
        digest.update(packed.digest.encode())
        parts = list(_made(task).values())
    for held_out in (split.valid, split.test):
        parts += [held_out.positives, *([] if held_out.negatives is None else [held_out.negatives])]
    for tensor in parts:
        digest.update(tensor.contiguous().cpu().numpy().data)
    if packed is None:
        digest.update(pd.util.hash_array(task.graph.names.array()).data)
    return digest.hexdigest()


def save_task(task: LinkTask, folder: Path) -> None:
    """Writes the graph, its split, its features and its node names into a run folder.

    Of a packed graph, which may be larger than all disks of runs, it writes where it lies and its hash.
    """
    split, graph = task.split, task.graph
    packed = graph if isinstance(graph, PackedGraph) else None
    tensors: dict[str, Tensor] = {"valid": split.valid.positives, "test": split.test.positives}
    tensors |= {"train": split.train, **task.inputs.tensors()} if packed is None else _made(task)
    optional = {
        "train_times": split.train_times if packed is None else None,
        "valid_negatives": split.valid.negatives,
        "test_negatives": split.test.negatives,
        "valid_times": split.valid.times,
        "test_times": split.test.times,
    }
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    facts: dict[str, object] = {
        "source": graph.source,
        "num_nodes": graph.num_nodes,
        "directed": graph.directed,
        "metric": task.metric,
        "strategy": split.strategy,
        "feature_columns": task.inputs.width,
        "test_sees_valid": task.test_view is not task.train_view,
        "self_loops": graph.cleaning.self_loops,
        "duplicates": graph.cleaning.duplicates,
        **asdict(task.leaks),
        "fingerprint": fingerprint(task),
    }
    if packed is not None:
        facts |= {"packed": str(packed.folder), "packed_digest": packed.digest}
    write_tensors(folder / GRAPH_FILE, tensors, facts)
    if packed is not None:
        return
    with replacing(folder / NODES_FILE) as temporary:
        pd.DataFrame({"name": graph.names.array()}).to_parquet(temporary, index=False)


def load_task(folder: Path) -> LinkTask:
    """Reads what `save_task` wrote.

    Raises:
        RunError: a file is missing or damaged.
    """
    tensors, facts = read_tensors(folder / GRAPH_FILE)
    packed = _packed_graph(folder, facts) if "packed" in facts else None
    try:
        links = {} if packed is None else {"train": packed.links}
        nodes = int(str(facts["num_nodes"])) if packed is None else packed.num_nodes
        check_tensors(tensors | links, nodes, str(facts["metric"]))
        valid, test = (
            HeldOut(tensors[part], tensors.get(f"{part}_negatives"), tensors.get(f"{part}_times"))
            for part in ("valid", "test")
        )
        strategy = str(facts["strategy"])
        graph = packed or _resident_graph(folder, tensors, facts, valid, test)
        split = Split(graph.links, graph.times, valid, test, strategy)
        train_view = training_view(graph, split)
        test_view = train_view.with_links(valid.positives) if facts["test_sees_valid"] else train_view
        own = {} if graph.features is None else {"features": graph.features}
        columns = 0 if graph.features is None else graph.features.shape[1]
        features = read_features(tensors | own, int(str(facts.get("feature_columns", columns))))
        counts = {field.name: int(str(facts[field.name])) for field in fields(LeakAudit) if field.name != "protocol"}
        leaks = LeakAudit(**counts, protocol=str(facts["protocol"]))
        task = LinkTask(graph, split, str(facts["metric"]), leaks, train_view, test_view, lambda: features)
        if fingerprint(task) != facts["fingerprint"]:
            raise ValueError("its graph or its node names do not match their fingerprint")
    except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
        raise RunError(f"{folder} is damaged ({error}); restore it from a copy, or train again.") from error
    return task


def _resident_graph(
    folder: Path, tensors: dict[str, Tensor], facts: dict[str, object], valid: HeldOut, test: HeldOut
) -> Graph:
    """Returns the graph that lies in the run folder itself."""
    names_file = folder / NODES_FILE
    if not names_file.is_file():
        raise RunError(f"{names_file} does not exist; is {folder} a run folder written by headtail?")
    index, count = _read_names(names_file), int(str(facts["num_nodes"]))
    if len(index) != count:
        raise ValueError("its graph or its node names do not match their fingerprint")
    return Graph(
        source=str(facts["source"]),
        num_nodes=count,
        directed=bool(facts["directed"]),
        links=tensors["train"],
        names=NodeNames(count, None if _counts_up(index) else index),
        cleaning=Cleaning(int(str(facts["self_loops"])), int(str(facts["duplicates"]))),
        times=tensors.get("train_times"),
        features=tensors.get("features"),
        valid=valid,
        test=test,
        metric=str(facts["metric"]),
    )


def _packed_graph(folder: Path, facts: dict[str, object]) -> PackedGraph:
    """Opens the packed graph of a run: where it was when the run was trained, or beside the run's own files."""
    recorded = Path(str(facts["packed"]))
    place = next((place for place in (folder / recorded.name, recorded) if is_packed(place)), None)
    if place is None:
        raise RunError(
            f"{folder} was trained on the packed graph {recorded}, which is not there; put it back, or into {folder}."
        )
    graph = open_packed(place)
    if graph.digest != facts.get("packed_digest"):
        raise RunError(f"{place} is not the packed graph that {folder} was trained on; put that one there.")
    return graph


def _made(task: LinkTask) -> dict[str, Tensor]:
    """Returns the features that do not lie in a packed graph: structural ones."""
    return {name: tensor for name, tensor in task.inputs.tensors().items() if name != "features"}


def _read_names(file: Path) -> pd.Index:
    """Returns the node names in node order.

    Raises:
        ValueError: they are neither texts nor integers, or one stands for two nodes.
    """
    column = read_columns(file, ["name"])["name"]
    kind = column.type
    known = any(is_kind(kind) for is_kind in (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string))
    if column.null_count or not known:
        raise ValueError(f"the node names are {kind}, {column.null_count} of them missing")
    index: pd.Index = pd.Index(column.to_pandas())
    if not index.is_unique:
        raise ValueError("two nodes have the same name")
    return index


def _counts_up(index: pd.Index) -> bool:
    """Whether the names are just 0, 1, 2, …"""
    return pd.api.types.is_integer_dtype(index.dtype) and np.array_equal(index.to_numpy(), np.arange(len(index)))
