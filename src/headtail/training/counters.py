"""Counters of work (docs/method.md, 9): exact, so that O(N·C + |E|·M) is a measured figure."""

from dataclasses import dataclass, field, fields

from torch import Tensor

from headtail.sampling.sampler import Batch


@dataclass
class Counters:
    """Work of one epoch.

    Attributes:
        gnn_node_encodings: nodes that saw neighbours, counted at every layer.
        blocked_node_encodings: blocked nodes at inner layers, for which a layer is an MLP.
        mlp_node_encodings: nodes encoded by the tail MLP (all its layers at once).
        pairs_scored: positives and negatives.
    """

    gnn_node_encodings: int = 0
    blocked_node_encodings: int = 0
    mlp_node_encodings: int = 0
    pairs_scored: int = 0
    _of_epoch: Tensor | None = field(default=None, repr=False)
    _mlp: bool = field(default=True, repr=False)

    def add(self, batch: Batch, mlp_encodes_nodes: bool) -> None:
        """Counts one batch; where only its device knows its work, that of the epoch so far is all there is."""
        if batch.work is not None:
            self._of_epoch, self._mlp = batch.work, mlp_encodes_nodes
            return
        if batch.neighbourhood is not None:
            for block in batch.neighbourhood.blocks:
                self.gnn_node_encodings += block.num_expanded
                self.blocked_node_encodings += block.num_targets - block.num_expanded
        if mlp_encodes_nodes:
            self.mlp_node_encodings += batch.nodes.numel()
        self.pairs_scored += batch.positive.shape[1] + batch.negative.shape[1]

    def as_dict(self) -> dict[str, int]:
        """Returns the counts by name; waits for a device that knows some."""
        found = {name: int(getattr(self, name)) for name in COUNTERS}
        if self._of_epoch is not None:
            for name, more in zip(COUNTERS, self._of_epoch.tolist(), strict=True):
                found[name] += more if self._mlp or name != "mlp_node_encodings" else 0
        return found


COUNTERS = tuple(one.name for one in fields(Counters) if not one.name.startswith("_"))
