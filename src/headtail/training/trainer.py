"""The training loop of every GNN method, to be read from top to bottom."""

import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from headtail.config import Config
from headtail.contract import Method, PairScorer, Validate
from headtail.errors import ConfigError, TrainingError
from headtail.graph.message import MessageGraph
from headtail.graph.task import LinkTask
from headtail.graph.view import GraphView
from headtail.nn.embedding_scorer import EmbeddingScorer
from headtail.nn.models import MODELS, LinkModel, ModelShape
from headtail.sampling.batches import BATCHES
from headtail.sampling.negatives import NegativeSpace
from headtail.sampling.neighbours import NEIGHBOURS, Fanout
from headtail.sampling.sampler import Batch, BatchSampler
from headtail.training.checkpoint import CheckpointStore, Progress
from headtail.training.counters import Counters
from headtail.training.memory import keep_freed_memory
from headtail.training.objectives import OBJECTIVES
from headtail.training.observer import Observer, Record


def resolve_device(name: str) -> torch.device:
    """Returns the device of that name; "auto" is CUDA where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device {name!r}; use cpu, cuda or auto.") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not one that headtail trains on; use cpu, cuda or auto.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        seen = f"{torch.cuda.device_count()} GPUs" if torch.cuda.device_count() else "no GPU"
        raise ConfigError(f"device {name!r} was asked for, but PyTorch sees {seen} here; use --device cpu or auto.")
    return device


@dataclass
class GnnMethod(Method):
    """AML, symmetric and SMLP models, trained on a task.

    Attributes:
        config: settings, with every "auto" resolved.
        model: the weights of the best validation epoch once trained.
    """

    config: Config
    task: LinkTask
    model: LinkModel
    device: torch.device

    @staticmethod
    def create(task: LinkTask, config: Config) -> "GnnMethod":
        """Makes an untrained model for a task; one seed fixes its weights."""
        config = resolve_auto(config, task.metric)
        device = resolve_device(config.training.device)
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
        return GnnMethod(config, task, model.to(device), device)

    def message_graph(self, view: GraphView) -> MessageGraph:
        """Builds the message graph of a view on the method's device."""
        features = self.task.features.to(self.device)
        return MessageGraph.build(view, features, self.config.graph.normalisation, self.config.model.layers)

    def scorer(self, view: GraphView) -> PairScorer:
        return self._scorer(self.message_graph(view))

    def fit(
        self,
        validate: Validate,
        observer: Observer | None = None,
        checkpoints: CheckpointStore | None = None,
        resume: bool = False,
    ) -> Progress:
        """Trains, keeps the best validation epoch, and leaves its weights in `model`.

        A keyboard interrupt ends training after the last finished epoch; that is told by the returned
        progress having fewer epochs than asked for.
        """
        observer = observer or Observer()
        t = self.config.training
        if self.device.type == "cpu":
            keep_freed_memory()
        graph = self.message_graph(self.task.train_view)
        sampler = self._sampler(graph)
        optimizer = torch.optim.Adam(self.model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay)
        progress = Progress()
        if resume and checkpoints is not None:
            progress = checkpoints.load(self.model, optimizer)
            observer.resumed(progress.history)
        observer.started(t.epochs, progress.epoch, self.task.metric)
        try:
            for epoch in range(progress.epoch + 1, t.epochs + 1):
                set_learning_rate(optimizer, cosine(t.learning_rate, epoch, t.epochs))
                record = self._train_epoch(epoch, graph, sampler, optimizer, observer)
                if epoch % t.evaluate_every == 0 or epoch == t.epochs:
                    start = time.perf_counter()
                    metrics = validate(self._scorer(graph))
                    record |= {f"valid_{name}": value for name, value in metrics.items()}
                    record["evaluation_seconds"] = time.perf_counter() - start
                    value = next(iter(metrics.values()))
                    if value > progress.best_value:
                        progress.best_value, progress.best_epoch = value, epoch
                        progress.best_weights = self._weights()
                if progress.best_value == -math.inf:  # nothing was validated yet: the newest epoch is the best known
                    progress.best_epoch, progress.best_weights = epoch, self._weights()
                progress.epoch = epoch
                progress.history.append(record)
                if checkpoints is not None:
                    checkpoints.save(self.model, optimizer, progress)
                observer.epoch_done(record)
        except KeyboardInterrupt:
            pass
        finally:
            observer.finished()
        if progress.best_weights:
            self.model.load_state_dict(progress.best_weights)
        self.model.eval()
        return progress

    def _weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _train_epoch(
        self,
        epoch: int,
        graph: MessageGraph,
        sampler: BatchSampler,
        optimizer: torch.optim.Optimizer,
        observer: Observer,
    ) -> Record:
        """Learns every training link once and returns the epoch's record."""
        t = self.config.training
        objective = OBJECTIVES[t.objective]
        # Randomness is a function of (seed, epoch) alone, so a resumed run repeats an uninterrupted one.
        generator = torch.Generator(device=self.device).manual_seed(epoch_seed(t.seed, epoch))
        counters, links, total = Counters(), 0, 0.0
        self.model.train()
        start = time.perf_counter()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(epoch_seed(t.seed, epoch))  # for dropout
            for number, batch in enumerate(sampler.epoch(generator), 1):
                positive, negative = self.model(graph, batch)
                loss = objective(positive, negative, batch.negative_of)
                value = float(loss.detach())
                if not math.isfinite(value):
                    raise TrainingError(
                        describe_failure(epoch, number, value, batch, positive, negative, t.learning_rate)
                    )
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                counters.add(batch, self.model.mlp_encodes_nodes)
                count = batch.positive.shape[1]
                links, total = links + count, total + value * count
                observer.batch_done(epoch, number, len(sampler.batches), count, value)
        seconds = time.perf_counter() - start
        return {
            "epoch": epoch,
            "loss": total / max(1, links),
            "learning_rate": optimizer.param_groups[0]["lr"],
            "seconds": seconds,
            "links": links,
            "links_per_second": links / seconds,
            **counters.as_dict(),
        }

    def _sampler(self, graph: MessageGraph) -> BatchSampler:
        """Composes the batch sampler; in AML-R the rows are tail nodes."""
        s = self.config.sampling
        view = self.task.train_view
        reverse = self.config.model.reverse
        supervision = (view.in_rows if reverse else view.out_rows).to(self.device)
        output, inner = (None if count == "all" else count for count in (s.fanout_output, s.fanout_inner))
        fanout = Fanout(output, inner, s.blocked)
        return BatchSampler(
            graph=graph,
            batches=BATCHES[s.batches](supervision, s.links_per_batch),
            negatives=s.negatives,
            negatives_per_positive=s.negatives_per_positive,
            negative_space=NegativeSpace(supervision, rows_are_tails=reverse),
            neighbours=NEIGHBOURS[s.neighbours](fanout),
            gnn_scope=self.model.gnn_scope,
            layers=self.config.model.layers,
        )

    def _scorer(self, graph: MessageGraph) -> PairScorer:
        """Encodes all nodes with full neighbourhoods, in evaluation mode."""
        self.model.eval()
        rows, columns = self.model.represent_all(graph)
        heads, tails = (columns, rows) if self.config.model.reverse else (rows, columns)
        return EmbeddingScorer(heads, tails, self.model.scorer, self.task.graph.directed)


def resolve_auto(config: Config, metric: str) -> Config:
    """Returns the configuration with negatives and objective chosen for the metric (docs/method.md, 3 and 5)."""
    ranking = metric == "mrr"
    sampling, training = config.sampling, config.training
    if sampling.negatives == "auto":
        sampling = sampling.model_copy(update={"negatives": "tail" if ranking else "uniform"})
    if training.objective == "auto":
        objective = "cross_entropy" if ranking else "squared_hinge"
        training = training.model_copy(update={"objective": objective})
    return config.model_copy(update={"sampling": sampling, "training": training})


def cosine(peak: float, epoch: int, epochs: int) -> float:
    """Learning rate of an epoch (1-based): from `peak` along half a cosine towards 0."""
    return peak * 0.5 * (1 + math.cos(math.pi * (epoch - 1) / epochs))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for one epoch of one run; different for every pair within reason."""
    return (seed * 1_000_003 + epoch) % 2**63


def describe_failure(
    epoch: int, number: int, loss: float, batch: Batch, positive: Tensor, negative: Tensor, rate: float
) -> str:
    """Says what is known about the batch whose loss is not a number."""
    scores = torch.cat([positive.detach(), negative.detach()])
    broken = int((~torch.isfinite(scores)).sum())
    return (
        f"the loss became {loss} in epoch {epoch}, batch {number}: {batch.positive.shape[1]:,} positives and "
        f"{batch.negative.shape[1]:,} negatives over {batch.nodes.numel():,} nodes, {broken:,} scores not finite. "
        f"Lower learning_rate (now {rate:g}), or check the features for extreme values, and train again."
    )
