"""Matrix factorisation (docs/method.md, 8): as a method, and as maker of features for graphs that bring none."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.learned import BASELINES
from headtail.config import Config, ModelConfig
from headtail.contract import PairScorer
from headtail.graph.structure import STRUCTURES
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.nn.convolutions import linear
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.norm import unit_rows
from headtail.nn.scorer import HadamardScorer
from headtail.sampling.batches import BATCHES, LinkBatches
from headtail.sampling.negatives import NegativeSpace, draw_negatives
from headtail.sampling.numbering import Numbering
from headtail.sampling.sampler import Batch
from headtail.training.counters import Counters
from headtail.training.learner import Learner, Loss, cosine, epoch_seed, resolve_auto, resolve_device, set_learning_rate
from headtail.training.objectives import OBJECTIVES, squared_hinge

# The feature maker's own training (docs/method.md, 8), which no setting of the link predictor changes.
FEATURE_EPOCHS = 50
FEATURE_LEARNING_RATE = 0.01
FEATURE_LAYERS = 3
# Links per batch: the paper's where there are enough links for this many steps per epoch, but never very few.
FEATURE_MOST_LINKS, FEATURE_STEPS, FEATURE_FEWEST_LINKS = 65_536, 16, 256


class ResidualLayers(nn.Module):
    """Linear layers x ← unit(x + W·x + b), with a ReLU on the added part of each but the last."""

    def __init__(self, dim: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.layers = nn.ModuleList(linear(dim, dim) for _ in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        for step, layer in enumerate(self.layers, 1):
            h = layer(x)
            if step < len(self.layers):
                h = F.relu(h, inplace=True)
            if self.dropout:
                h = F.dropout(h, self.dropout, self.training)
            x = unit_rows(x + h)
        return x


class FactorModel(nn.Module):
    """A table of embeddings → BatchNorm → residual layers → Hadamard scorer.

    Both ends of a link read the same table. In directed graphs heads and tails have layers of their own, since the
    Hadamard product of one representation with itself could not tell i → j from j → i; in undirected graphs they
    share them, and it should not.
    """

    def __init__(
        self, num_nodes: int, directed: bool, dim: int, layers: int, scorer_layers: int, dropout: float
    ) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(num_nodes, dim))
        self.norm = nn.BatchNorm1d(dim)
        self.tail = ResidualLayers(dim, layers, dropout)
        self.head = ResidualLayers(dim, layers, dropout) if directed else None
        self.scorer = HadamardScorer(dim, scorer_layers, dropout)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the batch's positives [P] and negatives [Q]."""
        x = self.norm(self.table.index_select(0, batch.nodes))
        v = self.tail(x)
        u = v if self.head is None else self.head(x[: batch.num_rows])
        logits = self.scorer(u, v, torch.cat([batch.positive, batch.negative], dim=1))
        count = batch.positive.shape[1]
        return logits[:count], logits[count:]

    @torch.no_grad()
    def represent_all(self) -> tuple[Tensor, Tensor]:
        """Returns every node as a head and as a tail, [N, r] each."""
        x = self.norm(self.table)
        v = self.tail(x)
        return v if self.head is None else self.head(x), v


@dataclass(frozen=True)
class PairBatches:
    """Positives and negatives with their nodes deduplicated, for methods without neighbourhoods."""

    links: LinkBatches
    negatives: str
    negatives_per_positive: int

    def __len__(self) -> int:
        return len(self.links)

    def epoch(self, generator: torch.Generator) -> Iterator[Batch]:
        """Yields the batches of one epoch; rows without a training link yield none by themselves."""
        known = self.links.supervision
        numbering, space = Numbering(known.num_rows, known.device), NegativeSpace(known)
        for positives in self.links.epoch(generator):
            if positives.row.numel() == 0:
                continue
            negatives = draw_negatives(self.negatives, space, positives, self.negatives_per_positive, generator)
            rows = numbering.distinct(torch.cat([positives.row, negatives.row]))
            nodes = numbering.extend(rows, torch.cat([positives.col, negatives.col]))
            positive = torch.stack([numbering.local(positives.row), numbering.local(positives.col)])
            negative = torch.stack([numbering.local(negatives.row), numbering.local(negatives.col)])
            yield Batch(nodes, rows.numel(), positive, negative, negatives.positive, None)


@BASELINES.register("mf")
class MatrixFactorisation(Learner[Batch]):
    """Matrix factorisation: a learned embedding per node, refined by residual layers; no features, no GNN."""

    model: FactorModel

    def __init__(self, task: LinkTask, config: Config) -> None:
        config = resolve_auto(config, task.metric)
        m = config.model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = FactorModel(
                task.graph.num_nodes, task.graph.directed, m.hidden, m.layers, m.scorer_layers, m.dropout
            )
        super().__init__(task, config, model)

    @property
    def summary(self) -> str:
        m = self.config.model
        return f"matrix factorisation, embeddings of {m.hidden}, {m.layers} residual layers"

    def batches(self) -> PairBatches:
        s = self.config.sampling
        supervision = self.task.train_view.out_rows.to(self.device)
        return PairBatches(BATCHES[s.batches](supervision, s.links_per_batch), s.negatives, s.negatives_per_positive)

    def loss(self, batch: Batch) -> Loss:
        positive, negative = self.model(batch)
        objective = OBJECTIVES[self.config.training.objective]
        scores = torch.cat([positive.detach(), negative.detach()])
        return Loss(objective(positive, negative, batch.negative_of), batch.positive.shape[1], scores)

    def count(self, batch: Batch, counters: Counters) -> None:
        counters.add(batch, mlp_encodes_nodes=True)
        if self.model.head is not None:  # rows are encoded once more, as heads
            counters.mlp_node_encodings += batch.num_rows

    def scorer(self, view: GraphView) -> PairScorer:
        """Scores with what was learned from the training links, whatever else `view` shows."""
        self.model.eval()
        heads, tails = self.model.represent_all()
        return EmbeddingScorer(heads, tails, self.model.scorer, self.task.graph.directed)
