"""Counters of work (docs/method.md, 9): exact, so that O(N·C + |E|·M) is a measured figure."""

from dataclasses import asdict, dataclass, fields

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

    def add(self, batch: Batch, mlp_encodes_nodes: bool) -> None:
        """Counts one batch."""
        if batch.work is not None:
            self.gnn_node_encodings += batch.work.expanded
            self.blocked_node_encodings += batch.work.targets - batch.work.expanded
            self.mlp_node_encodings += batch.work.nodes if mlp_encodes_nodes else 0
            self.pairs_scored += batch.work.pairs
            return
        if batch.neighbourhood is not None:
            for block in batch.neighbourhood.blocks:
                self.gnn_node_encodings += block.num_expanded
                self.blocked_node_encodings += block.num_targets - block.num_expanded
        if mlp_encodes_nodes:
            self.mlp_node_encodings += batch.nodes.numel()
        self.pairs_scored += batch.positive.shape[1] + batch.negative.shape[1]

    def as_dict(self) -> dict[str, int]:
        """Returns the counts by name."""
        return asdict(self)


COUNTERS = tuple(one.name for one in fields(Counters))
