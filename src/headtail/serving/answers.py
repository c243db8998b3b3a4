"""Answers: the best tails of any heads, by a plan over candidates or exactly, for whoever asks in node numbers.

Immutable: Python, the command line and services ask the same object, from as many threads as they like.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from headtail.contract import Scorer
from headtail.evaluation.all_nodes import ANSWERS
from headtail.evaluation.scoring import refuse_seen
from headtail.graph.csr import CSR
from headtail.graph.kept import State, within
from headtail.graph.view import ServingView
from headtail.memory import hand_back_surplus
from headtail.progress import counting
from headtail.serving.across import answered_across
from headtail.serving.candidates import Candidates
from headtail.serving.cells import heads_at_once
from headtail.serving.plan import AnswerPlan
from headtail.serving.rankings import Ranking
from headtail.serving.sight import Sight
from headtail.serving.topk import TopK, best_candidates, check_asked, top_k

# Where only few tails may be answered with, all of them are candidates.
FEW = 1000


class Answers:
    """Answers from the links of one view.

    Args:
        num_nodes: of the graph.
        encode: makes the first scorer of the view; called once, if it is needed at all.
        sight: what candidates are read off; needed where there is a plan.
        plan: how candidates are found and ranked; None: all nodes are scored by the first scorer.
    """

    def __init__(
        self,
        num_nodes: int,
        encode: Callable[[], Scorer],
        sight: Sight | None = None,
        plan: AnswerPlan | None = None,
    ) -> None:
        self.num_nodes, self.sight, self.plan = num_nodes, sight, plan
        self._encode = encode

    @staticmethod
    def exactly(scorer: Scorer) -> "Answers":
        """Returns answers that score all nodes by a scorer."""
        return Answers(scorer.num_nodes, lambda: scorer)

    @cached_property
    def scorer(self) -> Scorer:
        """The first scorer: scores any pair."""
        return self._encode()

    @cached_property
    def stages(self) -> tuple[Candidates, Ranking]:
        """How candidates are found and ranked, where there is a plan."""
        assert self.plan is not None
        assert self.sight is not None
        return self.plan.candidates(self.sight), self.plan.ranking(self.sight, lambda: self.scorer)

    def state(self) -> State:
        """Returns what a run keeps of it: the first scorer's tables, and those of sources."""
        scorer = within("scorer", self.scorer.state())
        if self.plan is None or self.sight is None:
            return scorer
        for source in self.stages[0].sources:
            source.scores(np.zeros(1, dtype=np.int64))  # which has the sight make what it needs
        return scorer | within("sources", self.sight.state())

    def best(
        self,
        heads: Tensor,
        k: int,
        known: CSR | None = None,
        among: Tensor | None = None,
        exact: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[TopK]:
        """Finds the k best tails of heads [H], block after block in their order, by all ranks together.

        Args:
            heads: node numbers.
            k: tails per head; fewer only where fewer are allowed.
            known: links not to answer with; the head itself never is.
            among: bool [N], the only tails to answer with; None: all.
            exact: score every node by the first scorer, also where there is a plan.
            progress: called with the number of heads answered since the last call.

        Raises:
            DataError: k, heads or known links do not fit the graph, or scores are NaN.
        """
        if exact or self.plan is None:
            return answered_across(
                lambda some, told: top_k(self.scorer, some, k, known=known, among=among, progress=told),
                heads.to(self.scorer.device, torch.long),
                k,
                progress,
            )
        check_asked(self.num_nodes, heads, k, known)
        return answered_across(
            lambda some, told: self._from_candidates(some, k, known, among, told), heads.cpu().long(), k, progress
        )

    def _from_candidates(
        self,
        heads: Tensor,
        k: int,
        known: CSR | None,
        among: Tensor | None,
        progress: Callable[[int], None] | None,
    ) -> Iterator[TopK]:
        candidates, ranking = self.stages
        least = max(k, ANSWERS if among is None else min(FEW, int(among.sum())))

        @torch.no_grad()
        def answer(block: Tensor) -> TopK:
            lists = candidates.lists(block, known, among, least)
            return best_candidates(lists, ranking.rank(lists, k), k)

        for found in side_by_side(answer, torch.split(heads, heads_at_once(self.num_nodes))):
            yield found
            if progress is not None:
                progress(found.heads.numel())
            hand_back_surplus()


def best_tails(
    answers: Answers, heads: Tensor, k: int, *, known: CSR | None = None, shown: str | None = None
) -> Tensor:
    """Returns int64 [H, k] on the CPU: the best tails of heads as one table, to be judged.

    Args:
        shown: what a bar on a terminal says is done; there is none by default.

    Raises:
        DataError: the answers are from a view of all links.
    """
    if answers.sight is None or isinstance(answers.sight.view, ServingView):
        refuse_seen(answers.scorer)
    with nullcontext() if shown is None else counting(shown, heads.numel()) as advance:
        blocks = [block.tails.cpu() for block in answers.best(heads, k, known, progress=advance)]
    return torch.cat([torch.empty(0, k, dtype=torch.long), *blocks])


def side_by_side(answer: Callable[[Tensor], TopK], blocks: tuple[Tensor, ...]) -> Iterator[TopK]:
    """Answers blocks in their order, on as many threads as torch uses; each works on its block alone."""
    threads = min(torch.get_num_threads(), len(blocks) - 1)
    if blocks and blocks[0].numel():
        yield answer(blocks[0])  # by itself: makes what all share
    if threads < 1:
        return
    if threads == 1:
        yield from map(answer, blocks[1:])
        return
    whole, waiting, coming = torch.get_num_threads(), deque[Future[TopK]](), iter(blocks[1:])
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for block in coming:
                waiting.append(pool.submit(answer, block))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
    finally:
        torch.set_num_threads(whole)
