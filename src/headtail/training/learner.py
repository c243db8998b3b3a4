"""What every method that learns in epochs shares, to be read from top to bottom: the loop, the best epoch, checkpoints.

A subclass says what a batch is, what it costs and how trained weights score pairs; the loop is written once.
"""

import math
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from headtail.config import Config
from headtail.contract import Validate
from headtail.errors import ConfigError, TrainingError
from headtail.graph.task import LinkTask
from headtail.kernels.adam import OneKernelAdam
from headtail.kernels.launch import engine
from headtail.memory import hand_back_surplus, keep_freed_memory
from headtail.ranks import current
from headtail.training.ahead import drawn_ahead
from headtail.training.averaging import WeightAverage
from headtail.training.checkpoint import CheckpointStore, Progress
from headtail.training.counters import Counters
from headtail.training.distributed import SharedStep, epoch_totals, spread_norms
from headtail.training.objectives import OBJECTIVES, Objective, shares_across
from headtail.training.observer import Observer, Record
from headtail.training.recorded import RecordedBatches
from headtail.training.schedule import cosine, epoch_seed, set_learning_rate
from headtail.training.steps import Loss, LossLog, Step
from headtail.training.task_method import TaskMethod

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)


class EpochBatches(Protocol[B_co]):
    """Yields the batches of an epoch; its length is how many there are at most."""

    def __len__(self) -> int: ...

    def epoch(self, generator: torch.Generator) -> Iterator[B_co]:
        """Yields every batch of one epoch, drawn with `generator`."""
        ...


class Learner(TaskMethod, Generic[B]):
    """A method that learns by gradient descent in epochs of batches.

    Attributes:
        config: settings, with every "auto" resolved.
        model: the weights of the best validation epoch once trained.
        ranks: the processes that train together, each with its share of every batch.
    """

    # Whether batches are dealt to several ranks.
    spreads = False
    # Whether batches wait for a disk, which can read for the next ones while one is learned.
    reads_disk = False

    def __init__(self, task: LinkTask, config: Config, model: nn.Module) -> None:
        self.task, self.config = task, config
        self.ranks = current()
        self.device = resolve_device(config.training.device)
        self.model = model.to(self.device)
        self.epochs = config.training.epochs

    # ---- what a subclass says ----

    @abstractmethod
    def batches(self) -> EpochBatches[B]:
        """Builds what all epochs share, and returns the source of their batches."""

    @abstractmethod
    def loss(self, batch: B) -> Loss:
        """Returns the loss of one batch; the model is in training mode."""

    def count(self, batch: B, counters: Counters) -> None:
        """Adds the work of one batch."""

    # ---- what they share ----

    @property
    def objective(self) -> Objective:
        return OBJECTIVES[self.config.training.objective]

    def link_loss(self, positive: Tensor, negative: Tensor, negative_of: Tensor) -> Loss:
        """Returns the configured objective over the logits of positives [P] and negatives [Q]."""
        scores = torch.cat([positive.detach(), negative.detach()])
        shares = shares_across(self.ranks, positive, negative)
        given = () if shares is None else (shares,)
        return Loss(self.objective(positive, negative, negative_of, *given), positive.numel(), scores)

    def optimizer(self) -> torch.optim.Optimizer:
        """Returns Adam; recorded steps need one in a single kernel, with everything that changes on the device."""
        t = self.config.training
        if not engine(self.device):
            return torch.optim.Adam(self.model.parameters(), t.learning_rate, weight_decay=t.weight_decay)
        return OneKernelAdam(self.model.parameters(), t.learning_rate, t.weight_decay)

    def step(self, optimizer: torch.optim.Optimizer) -> Step[B]:
        """Returns what learns a batch."""
        return SharedStep(self.loss, optimizer, self.ranks) if self.ranks.several else Step(self.loss, optimizer)

    def drawn(self, batches: EpochBatches[B], generator: torch.Generator) -> Iterator[B]:
        """Yields the batches of an epoch, drawn ahead of learning where that has to wait for something else."""
        drawn = batches.epoch(generator)
        waits = self.reads_disk or self.device.type == "cuda"
        if not waits or isinstance(batches, RecordedBatches):
            return drawn
        return drawn_ahead(drawn, device=self.device if engine(self.device) else None)

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def restore(self, weights: dict[str, Tensor]) -> None:
        self.model.load_state_dict(weights)
        self.model.eval()

    def fit(
        self,
        validate: Validate | None,
        observer: Observer | None = None,
        checkpoints: CheckpointStore | None = None,
        resume: bool = False,
    ) -> Progress:
        """Trains, keeps the best validation epoch, and leaves its weights in `model`.

        A keyboard interrupt ends training after the last finished epoch; that is told by the returned
        progress having fewer epochs than asked for. Of several ranks, each may be interrupted at another place, so
        they can only leave together: it is raised.
        """
        observer = observer or Observer()
        t = self.config.training
        if self.ranks.several and not self.spreads:
            raise ConfigError(
                f"method {self.config.model.method!r} trains in one process; start it without torchrun, or train "
                "aml, symmetric or smlp."
            )
        spread_norms(self.model, self.ranks)
        if self.device.type == "cpu":
            keep_freed_memory()
        batches = self.batches()
        optimizer = self.optimizer()
        step = self.step(optimizer)
        average = WeightAverage(self.model, t.averaging) if t.averaging else None
        progress = Progress()
        if resume and checkpoints is not None:
            progress = checkpoints.load(self.model, optimizer, average)
            self.ranks.agree("the epoch of the checkpoint", str(progress.epoch))
            observer.resumed(progress.history)
        observer.started(t.epochs, progress.epoch, self.task.metric)
        try:
            for epoch in range(progress.epoch + 1, t.epochs + 1):
                set_learning_rate(optimizer, cosine(t.learning_rate, epoch, t.epochs))
                record = self._train_epoch(epoch, batches, step, observer, average)
                with nullcontext() if average is None else average.in_place():
                    if validate is not None and (epoch % t.evaluate_every == 0 or epoch == t.epochs):
                        record |= self._validate(epoch, validate, progress)
                    if progress.best_value == -math.inf:  # nothing was validated yet: the newest is the best known
                        progress.best_epoch, progress.best_weights = epoch, self.weights()
                progress.epoch = epoch
                progress.history.append(record)
                if checkpoints is not None and self.ranks.leads:
                    checkpoints.save(self.model, optimizer, progress, average)
                observer.epoch_done(record)
        except KeyboardInterrupt:
            if self.ranks.several:
                raise KeyboardInterrupt(
                    f"training was interrupted in epoch {progress.epoch + 1}; finished epochs are kept, go on with "
                    "the same command and --resume."
                ) from None
        finally:
            observer.finished()
        if progress.best_weights:
            self.model.load_state_dict(progress.best_weights)
        self.model.eval()
        return progress

    def _validate(self, epoch: int, validate: Validate, progress: Progress) -> Record:
        """Judges the weights as they are, and keeps them if they are the best so far."""
        start = time.perf_counter()
        self.model.eval()
        metrics = validate(self.scorer(self.task.train_view))
        value = next(iter(metrics.values()))
        if value > progress.best_value:
            progress.best_value, progress.best_epoch = value, epoch
            progress.best_weights = self.weights()
        seconds = time.perf_counter() - start
        return {f"valid_{name}": value for name, value in metrics.items()} | {"evaluation_seconds": seconds}

    def _train_epoch(
        self,
        epoch: int,
        batches: EpochBatches[B],
        step: Step[B],
        observer: Observer,
        average: WeightAverage | None,
    ) -> Record:
        """Learns every training link once and returns the epoch's record."""
        t = self.config.training
        # Randomness is a function of (seed, epoch) alone, so a resumed run repeats an uninterrupted one.
        generator = torch.Generator(device=self.device).manual_seed(epoch_seed(t.seed, epoch))
        counters, links, total = Counters(), 0, 0.0
        log = LossLog(len(batches), self.device)

        def hear(wait: bool) -> None:
            nonlocal links, total
            try:
                for told in log.told(wait):
                    links, total = links + told.links, total + told.value * told.links
                    observer.batch_done(epoch, told.batch, len(batches), told.links, told.value)
            except TrainingError as error:
                raise TrainingError(
                    f"epoch {epoch}: {error}. Lower learning_rate (now {t.learning_rate:g}), or check the features for "
                    "extreme values, and train again."
                ) from error

        self.model.train()
        start = time.perf_counter()
        with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []):
            torch.manual_seed(epoch_seed(t.seed, epoch, self.ranks.rank))  # for dropout
            for number, batch in enumerate(self.drawn(batches, generator), 1):
                log.add(number, step(batch))
                if average is not None:
                    average.update()
                self.count(batch, counters)
                hear(wait=False)
                hand_back_surplus()
            hear(wait=True)
        links, total, work = epoch_totals(self.ranks, links, total, counters)
        seconds = time.perf_counter() - start
        return {
            "epoch": epoch,
            "loss": total / max(1, links),
            "learning_rate": cosine(t.learning_rate, epoch, t.epochs),
            "seconds": seconds,
            "links": links,
            "links_per_second": links / seconds,
            **work,
        }


def resolve_device(name: str) -> torch.device:
    """Returns the device of that name; "auto" is CUDA where there is one."""
    if name == "auto":
        return _own_gpu(torch.device("cuda")) if torch.cuda.is_available() else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ConfigError(f"unknown device {name!r}; use cpu, cuda or auto.") from error
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device {name!r} is not one that headtail trains on; use cpu, cuda or auto.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        seen = f"{torch.cuda.device_count()} GPUs" if torch.cuda.device_count() else "no GPU"
        raise ConfigError(f"device {name!r} was asked for, but PyTorch sees {seen} here; use --device cpu or auto.")
    return _own_gpu(device) if device.type == "cuda" and device.index is None else device


def _own_gpu(device: torch.device) -> torch.device:
    """Returns the GPU of this rank, where several share a machine."""
    gpu = current().gpu
    return device if gpu is None else torch.device("cuda", gpu)


def resolve_auto(config: Config, metric: str) -> Config:
    """Returns the configuration with negatives and objective chosen for the metric (docs/method.md, 3 and 5)."""
    ranking, sampling, training = metric == "mrr", config.sampling, config.training
    if sampling.negatives == "auto":
        sampling = sampling.model_copy(update={"negatives": "tail" if ranking else "uniform"})
    if training.objective == "auto":
        training = training.model_copy(update={"objective": "cross_entropy" if ranking else "squared_hinge"})
    return config.model_copy(update={"sampling": sampling, "training": training})
