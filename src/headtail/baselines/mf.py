"""Matrix factorisation (docs/method.md, 8): as a method, and as maker of features for graphs that bring none."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtail.baselines.learned import BASELINES
from headtail.config import Config, ModelConfig
from headtail.contract import Scorer
from headtail.graph.kept import Kept
from headtail.graph.structure import STRUCTURES, FixedColumns
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.kernels.unit import unit_rows
from headtail.memory import keep_freed_memory
from headtail.nn.convolutions import linear
from headtail.nn.embedding_scorer import EmbeddingScorer, kept_tables
from headtail.nn.scorer import HadamardScorer
from headtail.sampling.batches import BATCHES, EdgeBatches
from headtail.sampling.sampler import Batch, PairBatches
from headtail.training.counters import Counters
from headtail.training.learner import Learner, resolve_auto, resolve_device
from headtail.training.objectives import squared_hinge
from headtail.training.schedule import cosine, epoch_seed, set_learning_rate
from headtail.training.steps import Loss

# How training starts: the spread of the embeddings, the share of Glorot's weights in residual layers, and the slope of
# a one-layer scorer over products of unit rows (whose sum is within ±1).
FIRST_SPREAD, FIRST_SHARE, FIRST_SLOPE = 0.05, 0.1, 5.0

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
        made = [linear(dim, dim) for _ in range(layers)]
        with torch.no_grad():
            for layer in made:
                # Near the identity at first, so that heads and tails start alike and gradients reach the table
                # unmixed. Not at zero: a ReLU of zero passes no gradient.
                layer.weight.mul_(FIRST_SHARE)
        self.layers = nn.ModuleList(made)

    def forward(self, x: Tensor) -> Tensor:
        for step, layer in enumerate(self.layers, 1):
            h = layer(x)
            if step < len(self.layers):
                h = F.relu(h, inplace=True)
            if self.dropout:
                h = F.dropout(h, self.dropout, self.training)
            x = unit_rows(x + h)
        return x


class EmbeddingLinks(nn.Module):
    """Scores links between embedded nodes: BatchNorm → residual layers → Hadamard scorer.

    In directed graphs heads and tails have layers of their own, since the Hadamard product of one representation
    with itself could not tell i → j from j → i; in undirected graphs they share them, and it should not.
    """

    def __init__(self, directed: bool, settings: ModelConfig) -> None:
        super().__init__()
        dim, dropout = settings.hidden, settings.dropout
        self.norm = nn.BatchNorm1d(dim)
        assert self.norm.running_var is not None
        # The variance that embeddings start with: few steps must not leave evaluation with BatchNorm's own first guess.
        self.norm.running_var.fill_(FIRST_SPREAD**2)
        self.tail = ResidualLayers(dim, settings.layers, dropout)
        self.head = ResidualLayers(dim, settings.layers, dropout) if directed else None
        self.scorer = HadamardScorer(dim, settings.scorer_layers, dropout)
        if settings.scorer_layers == 1:
            # Starts as a plain inner product. Embeddings start at random, so nothing else tells them which way alike
            # is: under weights of mixed signs, linked nodes would first drift apart in half of the columns.
            nn.init.constant_(self.scorer.last.weight, FIRST_SLOPE)

    def forward(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the batch's positives [P] and negatives [Q] from its embedded nodes x [C, r]."""
        x = self.norm(x)
        v = self.tail(x)
        u = v if self.head is None else self.head(x[: batch.num_rows])
        logits = self.scorer(u, v, batch.pairs)
        count = batch.positive.shape[1]
        return logits[:count], logits[count:]

    @torch.no_grad()
    def pair_scorer(self, table: Tensor, directed: bool) -> Scorer:
        """Returns what scores all pairs of embedded nodes [N, r], in evaluation mode."""
        x = self.norm(table)
        tails = self.tail(x)
        heads = tails if self.head is None else self.head(x)
        return EmbeddingScorer(heads, tails, self.scorer, directed)

    def kept_scorer(self, kept: Kept, table: Tensor, directed: bool) -> Scorer | None:
        """Returns what `pair_scorer` makes of a table, from what was kept of it; None where nothing was."""
        tables = kept_tables(kept, table.shape[0], self.scorer, table.device)
        return None if tables is None else EmbeddingScorer(*tables, self.scorer, directed)


class FactorModel(nn.Module):
    """A table of embeddings, both ends of a link reading the same, and what scores their links."""

    def __init__(self, num_nodes: int, directed: bool, settings: ModelConfig) -> None:
        super().__init__()
        # BatchNorm takes the scale away again; what counts is how far a step of Adam goes in comparison.
        self.table = nn.Parameter(FIRST_SPREAD * torch.randn(num_nodes, settings.hidden))
        self.links = EmbeddingLinks(directed, settings)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the logits of the batch's positives [P] and negatives [Q]."""
        # A batch's nodes are distinct, so the gradient has no sums whose order could change.
        positive, negative = self.links(self.table.index_select(0, batch.nodes), batch)
        return positive, negative


@BASELINES.register("mf")
class MatrixFactorisation(Learner[Batch]):
    """Matrix factorisation: a learned embedding per node, refined by residual layers; no features, no GNN."""

    model: FactorModel

    def __init__(self, task: LinkTask, config: Config) -> None:
        config = resolve_auto(config, task.metric)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = FactorModel(task.graph.num_nodes, task.graph.directed, config.model)
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
        return self.link_loss(positive, negative, batch.negative_of)

    def count(self, batch: Batch, counters: Counters) -> None:
        counters.add(batch, mlp_encodes_nodes=True)
        if self.model.links.head is not None:  # rows are encoded once more, as heads
            counters.mlp_node_encodings += batch.num_rows

    def encode(self, view: GraphView) -> Scorer:
        """Scores with what was learned from the training links, whatever else `view` shows."""
        self.model.eval()
        return self.model.links.pair_scorer(self.model.table, self.task.graph.directed)

    def reopen(self, view: GraphView, kept: Kept) -> Scorer:
        self.model.eval()
        return self.model.links.kept_scorer(kept, self.model.table, view.directed) or self.encode(view)


@STRUCTURES.register("mf")
def factor_structure(view: GraphView, dim: int, seed: int = 0, device: str = "cpu") -> FixedColumns:
    """Matrix factorisation of the links: the embeddings after BatchNorm; nodes without links get zeros.

    Nothing but the links of the view is learned from, and the last epoch is taken, since there is nothing to judge
    epochs by. An embedding without links would stay the noise it started as; zero is where BatchNorm puts the mean.
    """
    where = resolve_device(device)
    if where.type == "cpu":
        keep_freed_memory()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = ModelConfig(hidden=dim, layers=FEATURE_LAYERS, scorer_layers=1)
        model = FactorModel(view.num_nodes, view.directed, settings).to(where)
    links = view.out_rows.to(where)
    if links.col.numel():
        batches = PairBatches(EdgeBatches(links, feature_links_per_batch(links.col.numel())), "uniform", 1)
        _train(model, batches, seed)
    model.eval()
    with torch.no_grad():
        embedded: Tensor = model.links.norm(model.table).cpu()
    return FixedColumns(embedded.masked_fill(view.neighbours.degrees.cpu()[:, None] == 0, 0.0))


def feature_links_per_batch(links: int) -> int:
    """Returns how many of `links` a step learns from: the paper's 65,536, but fewer where an epoch had few steps."""
    return min(FEATURE_MOST_LINKS, max(FEATURE_FEWEST_LINKS, links // FEATURE_STEPS))


def _train(model: FactorModel, batches: PairBatches, seed: int) -> None:
    """Learns as docs/method.md, 8 says: squared hinge, one negative per positive."""
    optimizer = torch.optim.Adam(model.parameters(), lr=FEATURE_LEARNING_RATE)
    model.train()
    for epoch in range(1, FEATURE_EPOCHS + 1):
        set_learning_rate(optimizer, cosine(FEATURE_LEARNING_RATE, epoch, FEATURE_EPOCHS))
        generator = torch.Generator(device=model.table.device).manual_seed(epoch_seed(seed, epoch))
        for batch in batches.epoch(generator):
            positive, negative = model(batch)
            loss = squared_hinge(positive, negative, batch.negative_of)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
