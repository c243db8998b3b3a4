"""Questions in names: which tails for which heads, and which are not to be answered with."""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from headtail.errors import ConfigError, DataError, did_you_mean
from headtail.evaluation.calibration import check_prior
from headtail.graph.csr import CSR
from headtail.graph.names import Names, NodeNames
from headtail.graph.task import LinkTask
from headtail.serving.answering import Answering
from headtail.serving.evidence import AnswersFrom, chosen_evidence, view_for
from headtail.serving.tables import named_rows
from headtail.serving.topk import check_asked

LeaveOut = Literal["known", "training", "nothing"]


@dataclass(frozen=True)
class Question:
    """What is asked of every head; `LinkPredictor.recommend` tells what each means."""

    k: int = 10
    leave_out: LeaveOut = "known"
    evidence: AnswersFrom | None = None
    among: Names | None = None
    exclude: Names | None = None
    exact: bool = False

    def known(self, task: LinkTask) -> CSR | None:
        """Returns the links not to answer with."""
        if self.leave_out not in get_args(LeaveOut):
            raise ConfigError(
                f"unknown leave_out {self.leave_out!r}; {did_you_mean(self.leave_out, get_args(LeaveOut))}"
            )
        if self.leave_out == "nothing":
            return None
        return task.known if self.leave_out == "known" else task.train_view.out_rows

    def allowed(self, names: NodeNames) -> Tensor | None:
        """Returns bool [N], the tails to answer with; None: all.

        Raises:
            DataError: a name is no node, or nothing is left.
        """
        if self.among is None and self.exclude is None:
            return None
        allowed = torch.full((names.num_nodes,), self.among is None)
        if self.among is not None:
            allowed[names.find(self.among, "among")] = True
        if self.exclude is not None:
            allowed[names.find(self.exclude, "exclude")] = False
        if not bool(allowed.any()):
            raise DataError(
                "among and exclude leave no tail to answer with; name more in the one, or fewer in the other."
            )
        return allowed


def digest(answering: Answering, heads: Tensor, question: Question, prior: float | None = None) -> str:
    """Returns a hash of all that decides the answers for heads [H], given as numbers, but for the graph and weights.

    Raises:
        HeadtailError: the question cannot be answered.
    """
    task = answering.method.task
    known, allowed = question.known(task), question.allowed(task.graph.names)
    check_asked(task.graph.num_nodes, heads, question.k, known)
    if prior is not None:
        check_prior(prior)
    evidence = chosen_evidence(task, question.evidence)
    view_for(task, evidence)
    plan = None if question.exact else answering.plan
    facts = [question.k, question.leave_out, evidence, prior, None if plan is None else plan.as_json()]
    found = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
    for numbers in (heads, torch.empty(0) if allowed is None else allowed):
        found.update(f" {numbers.numel()} ".encode())
        found.update(numbers.cpu().numpy().tobytes())
    return found.hexdigest()


def answer(
    answering: Answering,
    heads: Tensor,
    question: Question,
    progress: Callable[[int], None] | None = None,
    probabilities: Callable[[Tensor], NDArray[np.float64]] | None = None,
) -> Iterator[pd.DataFrame]:
    """Answers heads [H], given as numbers, with names: frames with columns head, tail, score, rank, block by block.

    Args:
        probabilities: of the first scorer's scores; makes a further column.
    """
    task = answering.method.task
    known, allowed = question.known(task), question.allowed(task.graph.names)
    answers = answering.asked(question.evidence)
    found = answers.best(heads, question.k, known, allowed, question.exact, progress)
    if probabilities is None:
        return named_rows(found, task.graph.names)

    def likely() -> Iterator[pd.DataFrame]:
        for block in found:
            tails = block.tails.to(answers.scorer.device)
            scores = answers.scorer.score_tails(block.heads.to(answers.scorer.device), tails)
            for frame in named_rows([block], task.graph.names):
                yield frame.assign(probability=probabilities(scores[tails >= 0]))

    return likely()
