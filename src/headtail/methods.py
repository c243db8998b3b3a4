"""Every method by name, made for a task; and the check that all names in a configuration mean something."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from headtail.config import Config
from headtail.errors import ConfigError, did_you_mean
from headtail.evaluation.metrics import Metric
from headtail.graph.split import SPLITS
from headtail.graph.structure import STRUCTURES
from headtail.graph.task import LinkTask
from headtail.nn.convolutions import make_convolution
from headtail.nn.models import MODELS
from headtail.sampling.batches import BATCHES
from headtail.sampling.negatives import NEGATIVES
from headtail.sampling.neighbours import NEIGHBOURS
from headtail.training.objectives import OBJECTIVES
from headtail.training.task_method import TaskMethod, Untrained
from headtail.training.trainer import GnnMethod

if TYPE_CHECKING:
    from headtail.baselines.learned import Maker
    from headtail.contract import Method
    from headtail.registry import Registry


def summaries() -> dict[str, str]:
    """Returns {name: what it is} of all methods, the GNNs first."""
    return {**MODELS.summaries(), **_baselines().summaries(), **_heuristics().summaries()}


def maker(name: str) -> Callable[[LinkTask, Config], TaskMethod]:
    """Returns what makes the method of that name.

    Raises:
        ConfigError: there is none, with the nearest right name.
    """
    if name in MODELS:
        return GnnMethod.create
    if name in _heuristics():
        return lambda task, config: Untrained(task, _heuristics()[name]())
    if name in _baselines():
        return _baselines()[name]
    raise ConfigError(f"unknown method {name!r}; {did_you_mean(name, list(summaries()))}")


def _heuristics() -> "Registry[type[Method]]":
    """The heuristics, imported when one may be meant: most commands are about a GNN and wait for nothing else."""
    from headtail.baselines.heuristics import HEURISTICS

    return HEURISTICS


def _baselines() -> "Registry[Maker]":
    """The baselines that are trained, imported when one may be meant."""
    from headtail.baselines import degnn, mf, node2vec, seal  # noqa: F401
    from headtail.baselines.learned import BASELINES

    return BASELINES


def make_method(task: LinkTask, config: Config) -> TaskMethod:
    """Makes the method that the configuration names, untrained."""
    return maker(config.model.method)(task, config)


def check_names(config: Config) -> None:
    """Resolves every component name, so that a typo is told before any data is read."""
    with torch.random.fork_rng(devices=[]):  # leaves the caller's random numbers alone
        make_convolution(config.model.encoder, 4, 4)
    maker(config.model.method)
    STRUCTURES[config.graph.structure_from]
    BATCHES[config.sampling.batches]
    NEIGHBOURS[config.sampling.neighbours]
    if config.sampling.negatives != "auto":
        NEGATIVES[config.sampling.negatives]
    if config.training.objective != "auto":
        OBJECTIVES[config.training.objective]
    if config.split.split not in ("auto", "given"):
        SPLITS[config.split.split]
    if config.evaluation.metric != "auto":
        Metric.parse(config.evaluation.metric)
