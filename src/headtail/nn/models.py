"""Link models: AML and its relatives. Each says how a node is represented as a row and as a column of a batch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from headtail.config import ModelConfig
from headtail.graph.message import MessageGraph
from headtail.graph.tables import Table
from headtail.nn.all_nodes import HEADS, add_rows
from headtail.nn.encoders import HeadEncoder, LayerStyle, TailEncoder
from headtail.nn.norm import Statistics
from headtail.nn.scorer import HadamardScorer
from headtail.nn.sparse import with_first
from headtail.ranks import ALONE, Ranks
from headtail.registry import Registry
from headtail.sampling.sampler import Batch, GnnScope


@dataclass(frozen=True)
class ModelShape:
    """Everything that decides a model's parameters; the defaults are the paper's.

    The switches are those of the ablation table: knowledge_transfer (KT), residual (Δ), homophily (HO),
    pre_encoding (PE).
    """

    in_dim: int
    dim: int = 256
    layers: int = 3
    encoder: str = "sage"
    scorer_layers: int = 3
    dropout: float = 0.0
    norm_momentum: float = 0.1
    norm_statistics: Statistics = "running"
    knowledge_transfer: bool = True
    residual: bool = True
    homophily: bool = True
    pre_encoding: bool = True
    evidence_columns: int = 0

    @staticmethod
    def of(settings: ModelConfig, in_dim: int, evidence_columns: int) -> "ModelShape":
        """Returns the shape that settings ask for, where features and evidence have so many columns."""
        return ModelShape(
            in_dim=in_dim,
            dim=settings.hidden,
            layers=settings.layers,
            encoder=settings.encoder,
            scorer_layers=settings.scorer_layers,
            dropout=settings.dropout,
            norm_momentum=settings.norm_momentum,
            norm_statistics=settings.norm_statistics,
            knowledge_transfer=settings.knowledge_transfer,
            residual=settings.residual,
            homophily=settings.homophily,
            pre_encoding=settings.pre_encoding,
            evidence_columns=evidence_columns,
        )


class LinkModel(nn.Module, ABC):
    """Represents nodes as rows and columns, and scores pairs with the Hadamard MLP."""

    gnn_scope: ClassVar[GnnScope]
    mlp_encodes_nodes: ClassVar[bool]

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        self.scorer = HadamardScorer(shape.dim, shape.scorer_layers, shape.dropout, shape.evidence_columns)

    @abstractmethod
    def represent(self, graph: MessageGraph, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the batch's rows [R, r] and columns [C, r] (all its nodes, rows first)."""

    @abstractmethod
    def represent_all(self, graph: MessageGraph, ranks: Ranks = ALONE) -> tuple[Table, Table]:
        """Returns every node as a row [N, r] and as a column [N, r], with full neighbourhoods.

        Several ranks share the work, and all get the same.
        """

    def forward(self, graph: MessageGraph, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the batch's positives [P] and negatives [Q]."""
        logits, count = self.logits(graph, batch), batch.positive.shape[1]
        return logits[:count], logits[count:]

    def logits(self, graph: MessageGraph, batch: Batch) -> Tensor:
        """Returns the logits [P + Q] of the batch's positives, then of its negatives, then of what is padding."""
        rows, columns = self.represent(graph, batch)
        out: Tensor = self.scorer(rows, columns, batch.pairs, batch.evidence, batch.counts and batch.counts.pairs)
        return out

    def _head(self) -> HeadEncoder:
        s = self.shape
        return HeadEncoder(s.encoder, s.in_dim, s.layers, self._style())

    def _tail(self, knowledge_transfer: bool) -> TailEncoder:
        s = self.shape
        return TailEncoder(s.encoder, s.in_dim, s.layers, self._style(), knowledge_transfer, s.residual, s.pre_encoding)

    def _style(self) -> LayerStyle:
        s = self.shape
        return LayerStyle(s.dim, s.dropout, s.norm_momentum, s.norm_statistics)


MODELS: Registry[type[LinkModel]] = Registry("method")


@MODELS.register("aml")
class AmlModel(LinkModel):
    """Asymmetric learning: a GNN encodes rows, an MLP over pre-encoded features encodes columns."""

    gnn_scope = "rows"
    mlp_encodes_nodes = True

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.head = self._head()
        self.tail = self._tail(shape.knowledge_transfer)

    def represent(self, graph: MessageGraph, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.neighbourhood is not None
        u = self.head(graph.features, batch.neighbourhood)
        v = self.tail(graph, batch.nodes, self.head.convolutions, batch.node_count)
        v, rows = with_first(v, batch.num_rows)
        return u + rows if self.shape.homophily else u, v  # eq. 7

    def represent_all(self, graph: MessageGraph, ranks: Ranks = ALONE) -> tuple[Table, Table]:
        u, v = self.head.encode_all(graph, ranks), self.tail.encode_all(graph, self.head.convolutions, ranks)
        if self.shape.homophily:
            add_rows(u, v, HEADS)  # eq. 7
        return u, v


@MODELS.register("symmetric")
class SymmetricModel(LinkModel):
    """The graph autoencoder: the same GNN encodes both ends of every link."""

    gnn_scope = "all"
    mlp_encodes_nodes = False

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.head = self._head()

    def represent(self, graph: MessageGraph, batch: Batch) -> tuple[Tensor, Tensor]:
        assert batch.neighbourhood is not None
        u, rows = with_first(self.head(graph.features, batch.neighbourhood), batch.num_rows)
        return rows, u

    def represent_all(self, graph: MessageGraph, ranks: Ranks = ALONE) -> tuple[Table, Table]:
        u = self.head.encode_all(graph, ranks)
        return u, u


@MODELS.register("smlp")
class SmlpModel(LinkModel):
    """The tail encoder for both ends: an MLP over pre-encoded features, no GNN."""

    gnn_scope = "none"
    mlp_encodes_nodes = True

    def __init__(self, shape: ModelShape) -> None:
        super().__init__(shape)
        self.tail = self._tail(knowledge_transfer=False)

    def represent(self, graph: MessageGraph, batch: Batch) -> tuple[Tensor, Tensor]:
        v, rows = with_first(self.tail(graph, batch.nodes, None, batch.node_count), batch.num_rows)
        return rows, v

    def represent_all(self, graph: MessageGraph, ranks: Ranks = ALONE) -> tuple[Table, Table]:
        v = self.tail.encode_all(graph, None, ranks)
        return v, v
