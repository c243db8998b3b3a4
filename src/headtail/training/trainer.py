"""AML, symmetric and SMLP models as a method: batches by the samplers, pairs scored by the model."""

from functools import cached_property

import torch

from headtail.config import Config
from headtail.contract import PairScorer
from headtail.graph.message import MessageGraph
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.models import MODELS, LinkModel, ModelShape
from headtail.sampling.batches import BATCHES
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.sampler import Batch, BatchSampler
from headtail.training.counters import Counters
from headtail.training.learner import Learner, Loss, resolve_auto


class GnnMethod(Learner[Batch]):
    """AML, symmetric and SMLP models, trained on a task."""

    model: LinkModel

    @staticmethod
    def create(task: LinkTask, config: Config) -> "GnnMethod":
        """Makes an untrained model for a task; one seed fixes its weights."""
        config = resolve_auto(config, task.metric)
        m = config.model
        shape = ModelShape(
            in_dim=task.features.shape[1],
            dim=m.hidden,
            layers=m.layers,
            encoder=m.encoder,
            scorer_layers=m.scorer_layers,
            dropout=m.dropout,
            norm_momentum=m.norm_momentum,
            norm_statistics=m.norm_statistics,
            knowledge_transfer=m.knowledge_transfer,
            residual=m.residual,
            homophily=m.homophily,
            pre_encoding=m.pre_encoding,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = MODELS[m.method](shape)
        return GnnMethod(task, config, model)

    @property
    def summary(self) -> str:
        m = self.config.model
        return f"encoder {m.encoder}, {m.layers} layers of {m.hidden}"

    def message_graph(self, view: GraphView) -> MessageGraph:
        """Builds the message graph of a view on the method's device; that of the training links is kept."""
        if view is self.task.train_view:
            return self._training_graph
        return self._build(view)

    @cached_property
    def _training_graph(self) -> MessageGraph:
        return self._build(self.task.train_view)

    def _build(self, view: GraphView) -> MessageGraph:
        features = self.task.features.to(self.device)
        return MessageGraph.build(view, features, self.config.graph.normalisation, self.config.model.layers)

    def scorer(self, view: GraphView) -> PairScorer:
        """Encodes all nodes with full neighbourhoods, in evaluation mode."""
        self.model.eval()
        rows, columns = self.model.represent_all(self.message_graph(view))
        heads, tails = (columns, rows) if self.config.model.reverse else (rows, columns)
        return EmbeddingScorer(heads, tails, self.model.scorer, self.task.graph.directed)

    def batches(self) -> BatchSampler:
        """Composes the batch sampler; in AML-R the rows are tail nodes."""
        s = self.config.sampling
        view = self.task.train_view
        reverse = self.config.model.reverse
        supervision = (view.in_rows if reverse else view.out_rows).to(self.device)
        output, inner = (None if count == "all" else count for count in (s.fanout_output, s.fanout_inner))
        fanout = Fanout(output, inner, s.blocked)
        return BatchSampler(
            graph=self._training_graph,
            batches=BATCHES[s.batches](supervision, s.links_per_batch),
            negatives=s.negatives,
            negatives_per_positive=s.negatives_per_positive,
            negative_space=NegativeSpace(supervision, rows_are_tails=reverse),
            neighbours=NEIGHBOURS[s.neighbours](fanout),
            gnn_scope=self.model.gnn_scope,
            layers=self.config.model.layers,
        )

    def loss(self, batch: Batch) -> Loss:
        positive, negative = self.model(self._training_graph, batch)
        return self.link_loss(positive, negative, batch.negative_of)

    def count(self, batch: Batch, counters: Counters) -> None:
        counters.add(batch, self.model.mlp_encodes_nodes)
