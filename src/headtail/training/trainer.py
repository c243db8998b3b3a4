"""AML, symmetric and SMLP models as a method: batches by the samplers, pairs scored by the model."""

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from headtail.config import Config
from headtail.contract import Scorer
from headtail.graph.csr import CSR
from headtail.graph.evidence import PairEvidence, evidence_width
from headtail.graph.features import NodeInputs
from headtail.graph.kept import Kept
from headtail.graph.message import MessageGraph
from headtail.graph.packed.graph import PackedGraph
from headtail.graph.supervision import Supervision, supervise
from headtail.graph.tables import HostTable, Table
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.kernels.launch import WITHOUT_TRITON, engine, has_triton
from headtail.kernels.operands import Operands
from headtail.nn.embedding_scorer import EmbeddingScorer, kept_tables
from headtail.nn.models import MODELS, LinkModel, ModelShape
from headtail.sampling.batches import BATCHES, LinkBatches
from headtail.sampling.evidence import BatchEvidence, sampled_evidence
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.sampler import Batch, BatchSampler
from headtail.training.averaging import WeightAverage
from headtail.training.captured import CapturedStep, PaddedBatches
from headtail.training.counters import Counters
from headtail.training.distributed import shared_nodes
from headtail.training.folds import FoldedBatches
from headtail.training.learner import EpochBatches, Learner, resolve_auto, resolve_device
from headtail.training.objectives import PaddedShares
from headtail.training.observer import Observer, Record
from headtail.training.placement import Footprint, Placement, place_features
from headtail.training.precision import mixed, resolve_precision
from headtail.training.recorded import RecordedBatches
from headtail.training.schedule import epoch_seed
from headtail.training.steps import Loss, Step
from headtail.training.surroundings import Surroundings, evidence_kinds

SEVERAL_UNRECORDED = (
    "Several ranks train without recorded steps and fused norms, so a GPU takes longer per link than alone"
)
# Encoders whose kernels are ours: these can be recorded, and bear mixed precision.
OWN_ENCODERS = ("sage", "gat")


class GnnMethod(Learner[Batch]):
    """AML, symmetric and SMLP models, trained on a task."""

    model: LinkModel
    spreads = True

    @staticmethod
    def create(task: LinkTask, config: Config) -> "GnnMethod":
        """Makes an untrained model for a task; one seed fixes its weights."""
        config = resolve_auto(config, task.metric)
        resolve_precision(config.training.precision, resolve_device(config.training.device))  # told before any work
        kinds = evidence_kinds(task, config.model.evidence)
        shape = ModelShape.of(config.model, task.inputs.width, evidence_width(kinds, task.graph.directed))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.training.seed)
            model = MODELS[config.model.method](shape)
        return GnnMethod(task, config, model)

    @property
    def summary(self) -> str:
        m = self.config.model
        kinds = evidence_kinds(self.task, m.evidence)
        evidence = f", evidence {', '.join(kinds)}" if kinds else ""
        return f"encoder {m.encoder}, {m.layers} layers of {m.hidden}{evidence}"

    @property
    def notes(self) -> tuple[str, ...]:
        missing = engine(self.device) and not has_triton()
        unrecorded = SEVERAL_UNRECORDED if engine(self.device) and self.ranks.several else None
        found = (self.supervision.note, self._placement.note, WITHOUT_TRITON if missing else None, unrecorded)
        return tuple(note for note in found if note)

    @cached_property
    def supervision(self) -> Supervision:
        """The links to learn from, and what they are predicted from."""
        return supervise(self.task.train_view, self.config.training.supervision)

    # ---- what the model sees ----

    def surroundings(self, view: GraphView) -> Surroundings:
        """Builds what is seen of a view, on the method's device; what training sees is kept."""
        if view is self.supervision.view:
            return self._training
        return self._validation if view is self.task.train_view else self._look(view)

    @cached_property
    def _training(self) -> Surroundings:
        return self._look(self.supervision.view)

    @cached_property
    def _validation(self) -> Surroundings:
        return self._look(self.task.train_view)

    def _look(self, view: GraphView) -> Surroundings:
        return Surroundings(self._message_graph(view), self._evidence_of(view))

    def _evidence_of(self, view: GraphView, kept: Kept | None = None) -> PairEvidence | None:
        kinds, own = evidence_kinds(self.task, self.config.model.evidence), self._inputs.own
        if not kinds:
            return None
        described = torch.empty(view.num_nodes, 0, device=self.device) if own is None else self._table(own)
        return PairEvidence(kinds, view, described, kept)

    @cached_property
    def _placement(self) -> Placement:
        """Where features lie; chosen once, before anything is on the device."""
        needed = Footprint.of(self.task, self.config, self.supervision)
        return place_features(self.config.training.features_on, self.device, needed)

    @cached_property
    def _inputs(self) -> NodeInputs:
        """Features as they are given, where message graphs are built over and over; else they wait on the host."""
        once = self.rounds and self.config.training.folds == 1
        return self.task.inputs.to("cpu" if self._placement.on_host or once else self.device)

    def _table(self, features: Tensor) -> Table:
        p = self._placement
        return HostTable(features, self.device, p.on_disk) if p.on_host else features.to(self.device)

    def _message_graph(self, view: GraphView) -> MessageGraph:
        where = torch.device("cpu") if self._placement.on_host else self.device
        seen = self._inputs.to(where).seen_in(view.to(where))
        how, layers, kept = self.config.graph.normalisation, self.config.model.layers, None
        if isinstance(self.task.graph, PackedGraph) and view is self.task.train_view and self._inputs.structure is None:
            kept = self.task.graph.encoded_file(how, layers)
        graph = MessageGraph.build(view, self._table(seen), how, layers, self._placement.on_disk, kept, self.ranks)
        return graph.rounded(torch.bfloat16) if self.rounds else graph

    def encode(self, view: GraphView) -> Scorer:
        """Encodes all nodes with full neighbourhoods, in evaluation mode."""
        self.model.eval()
        seen = self.surroundings(view)
        seen.graph.expect_reads(at_random=False)
        with mixed("bf16" if self.rounds else "fp32", self.device):
            rows, columns = self.model.represent_all(seen.graph, self.ranks)
        heads, tails = (columns, rows) if self.config.model.reverse else (rows, columns)
        return EmbeddingScorer(heads, tails, self.model.scorer, self.task.graph.directed, seen.evidence)

    def reopen(self, view: GraphView, kept: Kept) -> Scorer:
        tables = kept_tables(kept, view.num_nodes, self.model.scorer, self.device)
        if tables is None:
            return self.encode(view)
        evidence = self._evidence_of(view, kept.part("evidence"))
        return EmbeddingScorer(*tables, self.model.scorer, self.task.graph.directed, evidence)

    # ---- what it learns from ----

    def batches(self) -> EpochBatches[Batch]:
        """Composes the source of batches, and shows the scorer what evidence usually looks like."""
        self._standardise()
        if self.model.mlp_encodes_nodes and self.config.model.pre_encoding:
            self._training.graph.prepare()
        batches, self.reads_disk = self._plain_batches(), self._placement.on_disk
        if not self.captures:
            return batches
        if isinstance(batches, BatchSampler) and batches.plans is not None:
            return RecordedBatches(batches, lambda: self._orders(batches), self.config.training.seed)
        return PaddedBatches.around(batches, self.config.training.seed, self.device)

    def _orders(self, sampler: BatchSampler) -> Iterator[Tensor]:
        """Yields the order of every epoch's rows or links, as the epochs will draw them."""
        for epoch in range(1, self.epochs + 1):
            seed = epoch_seed(self.config.training.seed, epoch)
            yield sampler.batches.order(torch.Generator(device=self.device).manual_seed(seed))

    def _plain_batches(self) -> EpochBatches[Batch]:
        folds, view = self.config.training.folds, self.supervision.view
        if folds == 1 or self.supervision.links is not view.links:  # links that are not in the view need no hiding
            return self._sampler(self._deal(self.supervision.links), self._training.graph)
        return FoldedBatches(
            view.to(self.device),
            folds,
            lambda links: self._deal(links, folds),
            lambda batches, shown: self._sampler(batches, self._message_graph(shown)),
        )

    def _deal(self, links: Tensor, folds: int = 1) -> LinkBatches:
        """Returns the links, which are one of so many folds, dealt into batches."""
        s = self.config.sampling
        return BATCHES[s.batches](self._rows(links), s.links_per_batch, -(-s.batches_per_epoch // folds))

    def _sampler(self, batches: LinkBatches, graph: MessageGraph) -> BatchSampler:
        s = self.config.sampling
        output, inner = (None if count == "all" else count for count in (s.fanout_output, s.fanout_inner))
        return BatchSampler(
            graph=graph,
            batches=batches,
            negatives=s.negatives,
            negatives_per_positive=s.negatives_per_positive,
            negative_space=self._negative_space,
            neighbours=NEIGHBOURS[s.neighbours](Fanout(output, inner, s.blocked)),
            gnn_scope=self.model.gnn_scope,
            layers=self.config.model.layers,
            evidence=self._evidence,
            reads_features=self.captures,
            ranks=self.ranks,
        )

    @cached_property
    def _negative_space(self) -> NegativeSpace:
        known = self._rows(self.task.train_view.links)
        return NegativeSpace(known, rows_are_tails=self.config.model.reverse)

    def _rows(self, links: Tensor) -> CSR:
        """Returns links as rows of what the GNN encodes: heads, or tails in AML-R."""
        view = self.task.train_view
        if links is not view.links:
            view = GraphView(view.num_nodes, view.directed, links)
        return (view.in_rows if self.config.model.reverse else view.out_rows).to(self.device)

    @cached_property
    def _evidence(self) -> BatchEvidence | None:
        """What looks up the evidence of batches; that of the links to learn from once for all epochs."""
        evidence, links = self._training.evidence, self._rows(self.supervision.links)
        return None if evidence is None else BatchEvidence(evidence, self.config.model.reverse, links)

    def _standardise(self) -> None:
        """Fits the evidence encoder's scale to a sample of training links and as many negatives."""
        encoder = self.model.scorer.evidence
        if self._evidence is not None and encoder is not None:
            generator = torch.Generator(device=self.device).manual_seed(self.config.training.seed)
            links, kind = self._rows(self.supervision.links), self.config.sampling.negatives
            encoder.standardise(sampled_evidence(self._evidence, links, kind, self._negative_space, generator))

    @cached_property
    def _operands(self) -> Operands:
        return Operands()

    def loss(self, batch: Batch) -> Loss:
        graph = batch.graph
        assert graph is not None
        links = batch.positive.shape[1]
        batch = shared_nodes(batch, self.ranks, self.task.graph.num_nodes)
        with mixed(self.precision, self.device), self._operands.made():
            logits = self.model.logits(graph, batch).float()
        if batch.counts is None:
            return self.link_loss(logits[:links], logits[links:], batch.negative_of)
        value = self.objective(logits, logits, batch.negative_of, PaddedShares(batch.counts, logits.numel()))
        return Loss(value, links, logits)

    def count(self, batch: Batch, counters: Counters) -> None:
        counters.add(batch.unpadded or batch, self.model.mlp_encodes_nodes)

    # ---- how a GPU learns it ----

    @property
    def precision(self) -> str:
        setting = self.config.training.precision
        if setting == "auto" and self.config.model.encoder not in OWN_ENCODERS:
            setting = "fp32"  # convolutions of others need not bear mixed precision
        return resolve_precision(setting, self.device)

    @property
    def rounds(self) -> bool:
        """Whether features, and what all nodes become in evaluation, are held in bf16: half the memory and traffic."""
        return self.precision == "bf16" and self.captures

    @property
    def captures(self) -> bool:
        """Whether steps are recorded and played again.

        Not those that draw random numbers, have kernels of others, read features from host memory, or wait for other
        ranks.
        """
        m = self.config.model
        able = not self.ranks.several and engine(self.device) and has_triton() and not self._placement.on_host
        return able and m.encoder in OWN_ENCODERS and not m.dropout

    def _train_epoch(
        self,
        epoch: int,
        batches: EpochBatches[Batch],
        step: Step[Batch],
        observer: Observer,
        average: WeightAverage | None,
    ) -> Record:
        self._training.graph.expect_reads(at_random=True)
        # Products of the backward pass are in tf32 too; those of bf16 are in bf16 by what they multiply.
        with mixed("tf32" if self.precision == "tf32" else "fp32", self.device):
            return super()._train_epoch(epoch, batches, step, observer, average)

    def step(self, optimizer: torch.optim.Optimizer) -> Step[Batch]:
        return CapturedStep(self.loss, optimizer) if self.captures else super().step(optimizer)
