"""Checks what a file says about a graph before anything relies on it: compiled code would read beyond its tables."""

from collections.abc import Mapping

import torch
from torch import Tensor

from headtail.graph.graph import refuse_too_many_nodes


def check_tensors(tensors: Mapping[str, Tensor], num_nodes: int, metric: str) -> None:
    """Checks types, shapes and ranges of the tensors of a stored task; a packed graph keeps its training links itself.

    Raises:
        KeyError: held-out links are missing.
        ValueError: one is wrong.
        DataError: there is no memory for so many nodes.
    """
    refuse_too_many_nodes("the run", num_nodes)
    for name in ("valid", "test", *(["train"] if "train" in tensors else [])):
        _check_nodes(name, tensors[name], (2, None), num_nodes)
    for part in ("valid", "test"):
        if f"{part}_negatives" in tensors:
            rows = tensors[part].shape[1] if metric == "mrr" else 2
            _check_nodes(f"{part}_negatives", tensors[f"{part}_negatives"], (rows, None), num_nodes)
    for part in ("train", "valid", "test"):
        times = tensors.get(f"{part}_times")
        if times is not None and (times.dtype != torch.int64 or times.shape != tensors[part].shape[1:]):
            raise ValueError(f"{part}_times are {times.dtype} of shape {list(times.shape)}")
    for name, tensor in tensors.items():
        if name == "features" or name.startswith("structure_"):
            _check_table(name, tensor, num_nodes)


def _check_nodes(name: str, tensor: Tensor, shape: tuple[int, None], num_nodes: int) -> None:
    fits = tensor.dim() == 2 and tensor.shape[0] == shape[0] and tensor.numel() > 0
    if tensor.dtype != torch.int64 or not fits:
        raise ValueError(f"{name} is {tensor.dtype} of shape {list(tensor.shape)}")
    if not 0 <= int(tensor.min()) <= int(tensor.max()) < num_nodes:
        raise ValueError(f"{name} names nodes outside 0 … {num_nodes - 1}")


def _check_table(name: str, tensor: Tensor, num_nodes: int) -> None:
    if tensor.dtype != torch.float32 or tensor.dim() != 2 or tensor.shape[0] != num_nodes or tensor.shape[1] == 0:
        raise ValueError(f"{name} is {tensor.dtype} of shape {list(tensor.shape)}")
    if not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"{name} holds numbers that are not finite")
