"""How fast a trained method answers: one head, and all; and where the time goes."""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from headtail.config import Config
from headtail.evaluation.parts import Validation
from headtail.graph.graph import Graph
from headtail.graph.task import make_task
from headtail.methods import make_method
from headtail.serving.answering import Answering
from headtail.serving.answers import Answers
from headtail.serving.cells import heads_at_once
from headtail.serving.topk import TopK
from headtail.training.observer import Observer

T = TypeVar("T")
# Heads drawn to be answered together, and one by one.
TOGETHER, ALONE = 2048, 50


@dataclass(frozen=True)
class AnswersMeasured:
    """Seconds and milliseconds of a trained method's answers, ten tails a head.

    Attributes:
        train_seconds: of fitting, with validation.
        choose_seconds: finding budgets, learning trees, comparing rankings; with encoding for validation.
        first_seconds: until the first answer: encoding the view, and making the tables of sources.
        one_ms: a head by itself, median.
        all_seconds: all nodes, from a sample of heads.
        candidates_ms, ranking_ms: per head of a block, on one thread.
        candidates: per head, in the mean.
        choice: what ranks.
    """

    nodes: int
    train_seconds: float
    choose_seconds: float
    first_seconds: float
    one_ms: float
    all_seconds: float
    candidates_ms: float
    ranking_ms: float
    candidates: float
    choice: str

    def as_json(self) -> dict[str, float | str]:
        """Returns the fields, and answering and choosing as multiples of training."""
        ratios = {"all_to_train": self.all_seconds, "choose_to_train": self.choose_seconds}
        return asdict(self) | {name: value / self.train_seconds for name, value in ratios.items()}


def bench_answers(graph: Graph, config: Config, observer: Observer | None = None) -> AnswersMeasured:
    """Trains a method, and answers some heads with it."""
    task = make_task(graph, config)
    method = make_method(task, config)
    _, train_seconds = timed(lambda: method.fit(Validation(task), observer))
    answering = Answering(method, config)
    plan, choose_seconds = timed(lambda: answering.plan)
    drawn = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0))[:TOGETHER]
    answers, k = answering.asked(), min(10, graph.num_nodes - 1)
    _, first_seconds = timed(partial(_answer, answers, drawn[:1], k))
    alone = [timed(partial(_answer, answers, head, k))[1] for head in drawn[:ALONE, None]]
    _, together = timed(lambda: list(answers.best(drawn, k, task.known)))
    listing = ranking = candidates = 0.0
    if plan is not None:
        found, ranked = answers.stages
        for block in torch.split(drawn, heads_at_once(graph.num_nodes)):
            lists, seconds = timed(partial(found.lists, block, task.known, least=k))
            listing += seconds
            ranking += timed(partial(ranked.rank, lists))[1]
            candidates += int((lists.tails >= 0).sum())
    count = drawn.numel()
    return AnswersMeasured(
        nodes=graph.num_nodes,
        train_seconds=train_seconds,
        choose_seconds=choose_seconds,
        first_seconds=first_seconds,
        one_ms=1000 * statistics.median(alone),
        all_seconds=together / count * graph.num_nodes,
        candidates_ms=1000 * listing / count,
        ranking_ms=1000 * ranking / count,
        candidates=candidates / count,
        choice="exact" if plan is None else str(plan.choice),
    )


def _answer(answers: Answers, heads: Tensor, k: int) -> list[TopK]:
    return list(answers.best(heads, k))


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Returns what work returns, and the seconds it took."""
    start = time.perf_counter()
    done = work()
    return done, time.perf_counter() - start
