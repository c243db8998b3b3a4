"""What nodes are described by: features of their own, and structure that is read off the links."""

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.config import Config
from headtail.graph.exchange import told_by_first
from headtail.graph.graph import Graph
from headtail.graph.structure import STRUCTURES, Structure, read_structure
from headtail.graph.view import GraphView
from headtail.ranks import current


@dataclass(frozen=True)
class NodeInputs:
    """The data's own features [N, d], structural columns beside them, or one of both."""

    own: Tensor | None
    structure: Structure | None

    @property
    def width(self) -> int:
        """Columns in all."""
        own = 0 if self.own is None else self.own.shape[1]
        return own + (0 if self.structure is None else self.structure.width)

    def seen_in(self, view: GraphView) -> Tensor:
        """Returns float32 [N, width] for nodes of which the links of `view` are known; on the device of both."""
        parts = [] if self.own is None else [self.own]
        if self.structure is not None:
            parts.append(self.structure.columns(view))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def to(self, device: torch.device | str) -> "NodeInputs":
        own = None if self.own is None else self.own.to(device)
        return NodeInputs(own, None if self.structure is None else self.structure.to(device))

    def tensors(self) -> dict[str, Tensor]:
        """Returns all that it consists of, by name."""
        own = {} if self.own is None else {"features": self.own}
        structure = {} if self.structure is None else self.structure.tensors()
        return own | {f"structure_{name}": tensor for name, tensor in structure.items()}


def read_features(tensors: dict[str, Tensor], width: int) -> NodeInputs:
    """Returns what `NodeInputs.tensors` wrote, with `width` columns in all.

    Raises:
        KeyError: parts of it are missing.
    """
    own, prefix = tensors.get("features"), "structure_"
    parts = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    found = NodeInputs(own, read_structure(parts, width - (0 if own is None else own.shape[1])) if parts else None)
    if found.width != width:
        raise KeyError(f"features of {width} columns, of which {found.width} are there")
    return found


def make_features(graph: Graph, view: GraphView, config: Config) -> NodeInputs:
    """Returns the graph's features with the columns of structural ones that are wanted beside them.

    Of several ranks, all have the structure that the first one made.
    """
    columns = config.graph.structure
    if columns == "auto":
        columns = 0 if graph.features is not None else config.graph.featureless
    if columns == 0 and graph.features is not None:
        return NodeInputs(graph.features, None)
    make, ranks = STRUCTURES[config.graph.structure_from], current()
    if ranks.several:
        links = hashlib.blake2b(view.links.contiguous().numpy().data).hexdigest()
        ranks.agree("the graph", f"{view.num_nodes} {view.directed} {links}")
    structure = make(view, columns or config.graph.featureless, config.training.seed, config.training.device)
    for tensor in structure.tensors().values():
        told_by_first(ranks, tensor)  # ranks on other machines, or with more threads, may round otherwise
    return NodeInputs(graph.features, structure)
