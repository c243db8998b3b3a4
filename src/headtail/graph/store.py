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
from headtail.graph.audit import LeakAudit
from headtail.graph.features import read_features
from headtail.graph.graph import Cleaning, Graph, HeldOut
from headtail.graph.names import NodeNames
from headtail.graph.restored import check_tensors
from headtail.graph.split import Split
from headtail.graph.task import LinkTask

GRAPH_FILE = "graph.safetensors"
NODES_FILE = "nodes.parquet"


def fingerprint(task: LinkTask) -> str:
    """Returns a short hash of everything a model of this task depends on."""
    digest = hashlib.blake2b(digest_size=16)
    split = task.split
    digest.update(f"{task.graph.num_nodes} {task.graph.directed} {task.metric}".encode())
    features = task.inputs
    if features.structure is not None:
        digest.update(f"{features.width} columns".encode())
    parts = [split.train, *features.tensors().values()]
    for held_out in (split.valid, split.test):
        parts += [held_out.positives, *([] if held_out.negatives is None else [held_out.negatives])]
    for tensor in parts:
        digest.update(tensor.contiguous().cpu().numpy().data)
    digest.update(pd.util.hash_array(task.graph.names.array()).data)
    return digest.hexdigest()


def save_task(task: LinkTask, folder: Path) -> None:
    """Writes the graph, its split, its features and its node names into a run folder."""
    split, graph = task.split, task.graph
    tensors: dict[str, Tensor] = {
        "train": split.train,
        "valid": split.valid.positives,
        "test": split.test.positives,
        **task.inputs.tensors(),
    }
    optional = {
        "train_times": split.train_times,
        "valid_negatives": split.valid.negatives,
        "test_negatives": split.test.negatives,
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
    write_tensors(folder / GRAPH_FILE, tensors, facts)
    with replacing(folder / NODES_FILE) as temporary:
        pd.DataFrame({"name": graph.names.array()}).to_parquet(temporary, index=False)


def load_task(folder: Path) -> LinkTask:
    """Reads what `save_task` wrote.

    Raises:
        RunError: a file is missing or damaged.
    """
    tensors, facts = read_tensors(folder / GRAPH_FILE)
    names_file = folder / NODES_FILE
    if not names_file.is_file():
        raise RunError(f"{names_file} does not exist; is {folder} a run folder written by headtail?")
    try:
        index = _read_names(names_file)
        count, directed = int(str(facts["num_nodes"])), bool(facts["directed"])
        check_tensors(tensors, count, str(facts["metric"]))
        valid = HeldOut(tensors["valid"], tensors.get("valid_negatives"))
        test = HeldOut(tensors["test"], tensors.get("test_negatives"))
        split = Split(tensors["train"], tensors.get("train_times"), valid, test, str(facts["strategy"]))
        train_view = split.training_view(count, directed)
        test_view = train_view.with_links(valid.positives) if facts["test_sees_valid"] else train_view
        own = tensors["features"].shape[1] if "features" in tensors else 0
        features = read_features(tensors, int(str(facts.get("feature_columns", own))))
        graph = Graph(
            source=str(facts["source"]),
            num_nodes=count,
            directed=directed,
            links=tensors["train"],
            names=NodeNames(count, None if _counts_up(index) else index),
            cleaning=Cleaning(int(str(facts["self_loops"])), int(str(facts["duplicates"]))),
            times=split.train_times,
            features=features.own,
            valid=valid,
            test=test,
            metric=str(facts["metric"]),
        )
        counts = {field.name: int(str(facts[field.name])) for field in fields(LeakAudit) if field.name != "protocol"}
        leaks = LeakAudit(**counts, protocol=str(facts["protocol"]))
        task = LinkTask(graph, split, str(facts["metric"]), leaks, train_view, test_view, lambda: features)
        if len(index) != count or fingerprint(task) != facts["fingerprint"]:
            raise ValueError("its graph or its node names do not match their fingerprint")
    except (KeyError, TypeError, ValueError, OSError, pa.ArrowException) as error:
        raise RunError(f"{folder} is damaged ({error}); restore it from a copy, or train again.") from error
    return task


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
