"""Where features lie while a model is trained: on the GPU, in host memory, or in files, wherever there is room."""

from dataclasses import dataclass

import torch

from headtail.config import Config
from headtail.graph.evidence import choose_evidence
from headtail.graph.supervision import Supervision
from headtail.graph.task import LinkTask
from headtail.kernels.blocks import free_bytes
from headtail.kernels.room import LOG, gib
from headtail.memory import available_bytes
from headtail.ranks import current

# What may stay on a GPU for a whole training, as a share of what is free; batches, their gradients and evaluation need
# the rest.
RESIDENT_SHARE = 0.6
# What an entry of a message graph takes, about: column, row and weight, and the same again while it is built.
ENTRY_BYTES = 48
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Footprint:
    """About what a training keeps in memory, in bytes: tables of features, and message graphs."""

    features: int
    links: int

    @staticmethod
    def of(task: LinkTask, config: Config, supervision: Supervision) -> "Footprint":
        """Counts X and Â^L X of every message graph that is kept at a time, and what similarity is computed from."""
        graphs = 1 + (supervision.view is not task.train_view)
        if config.training.folds > 1:
            graphs += 2  # the one that is learned from, and the next, of which batches are drawn already
        nodes, own = task.graph.num_nodes, task.inputs.own
        columns = 2 * task.inputs.width
        if own is not None and "similarity" in choose_evidence(config.model.evidence, task.train_view, described=True):
            columns += 3 * own.shape[1]
        entries = 2 * task.train_view.links.shape[1] + nodes
        return Footprint(graphs * columns * nodes * FLOAT_BYTES, graphs * entries * ENTRY_BYTES)


@dataclass(frozen=True)
class Placement:
    """The choice: whether features stay in host memory, or on disk; `note` says why where nobody asked for it."""

    on_host: bool
    note: str | None = None
    on_disk: bool = False


def place_features(setting: str, device: torch.device, needed: Footprint) -> Placement:
    """Chooses by a setting "device", "host", "disk" or "auto": the device, unless it has too little free memory."""
    if setting == "disk":
        return _on_disk(device)
    if setting != "auto":
        return Placement(setting == "host")
    if device.type != "cuda":
        return _unless_too_large(Placement(False), device, needed)
    free = free_bytes(device)
    if needed.features + needed.links <= RESIDENT_SHARE * free:
        return Placement(False)
    note = (
        f"The features ({gib(needed.features)}) do not fit into GPU memory ({gib(free)} free) beside links and "
        "batches: they stay in host memory and are fetched batch by batch"
    )
    LOG.info(note)  # also where a run is loaded, and nobody asks for notes
    return _unless_too_large(Placement(True, note), device, needed)


def _unless_too_large(choice: Placement, device: torch.device, needed: Footprint) -> Placement:
    """Returns a choice of host memory, or the disk if features take too much of that."""
    free = available_bytes() // current().beside  # other ranks on this machine need as much
    if needed.features <= RESIDENT_SHARE * free:
        return choice
    note = (
        f"The features and what is made of them ({gib(needed.features)}) do not fit into memory ({gib(free)} free): "
        "they lie in files, of which the system keeps what is used"
    )
    LOG.info(note)
    return _on_disk(device, note)


def _on_disk(device: torch.device, note: str | None = None) -> Placement:
    # A CPU reads a mapped table as it is; for a GPU, rows are fetched.
    return Placement(device.type == "cuda", note, on_disk=True)
