"""Judges a method by the held-out links of a task."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from headtail.contract import Scorer
from headtail.errors import ConfigError
from headtail.evaluation.evaluator import evaluate
from headtail.graph.graph import HeldOut
from headtail.graph.task import LinkTask


@dataclass(frozen=True)
class Validation:
    """Judges a scorer by the validation links of a task."""

    task: LinkTask
    # What a scorer looked up about the validation links, which are the same every time.
    memory: dict[Any, Any] = field(default_factory=dict, compare=False)

    def __call__(self, scorer: Scorer) -> dict[str, float]:
        return evaluate_part(scorer.remembering(self.memory), self.task, "valid")


def evaluate_part(scorer: Scorer, task: LinkTask, part: str) -> dict[str, float]:
    """Evaluates the validation or test links; the task's own metric comes first."""
    held_out = held_out_part(task, part)
    assert isinstance(held_out.negatives, Tensor)
    metrics = evaluate(scorer, held_out.positives, held_out.negatives, task.metric)
    return {task.metric: metrics.pop(task.metric)} | metrics


def held_out_part(task: LinkTask, part: str) -> HeldOut:
    """Returns the validation or test links.

    Raises:
        ConfigError: `part` is neither "valid" nor "test".
    """
    parts = {"valid": task.split.valid, "test": task.split.test}
    if part not in parts:
        raise ConfigError(f"unknown part {part!r} of the split; links not trained on are evaluated: valid or test.")
    return parts[part]
