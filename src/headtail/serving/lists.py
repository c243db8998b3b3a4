"""Lists of answers, judged: how many heads are asked where nobody says, and what their lists are worth."""

import logging
from functools import partial

from headtail.evaluation.all_nodes import evaluate_lists
from headtail.evaluation.heads import HEADS_SAMPLED
from headtail.graph.task import LinkTask
from headtail.serving.answers import Answers, best_tails
from headtail.serving.cost import pairs_within, seconds_for
from headtail.training.observer import Record

LOG = logging.getLogger("headtail")
# So long may lists that score all nodes take by estimate where nobody says of how many heads. Fewer heads than this
# tell nothing.
SECONDS, FEWEST = 30.0, 10


def heads_to_ask(answers: Answers, heads_sampled: int | None) -> tuple[int, str | None]:
    """Returns how many heads to ask at most, and why there are fewer than by default.

    Args:
        heads_sampled: as many as that, whatever it takes; None: the default, fewer where a head is dear.
    """
    if heads_sampled is not None:
        return heads_sampled, None
    if answers.plan is not None:
        return HEADS_SAMPLED, None
    most = pairs_within(answers.scorer, SECONDS) // answers.num_nodes
    if most >= HEADS_SAMPLED:
        return HEADS_SAMPLED, None
    one = seconds_for(answers.scorer, answers.num_nodes)
    why = f"all {answers.num_nodes:,} nodes are scored for each, in about {one:.2g} s"
    more = "--heads-sampled (heads_sampled) asks more"
    if most < FEWEST:
        return 0, f"No heads were asked for lists: {why}; {more}."
    return most, f"Only {most} heads at most were asked for lists, not {HEADS_SAMPLED:,}: {why}; {more}."


def judge_lists(
    answers: Answers, task: LinkTask, part: str, heads_sampled: int | None, shown: str | None = None
) -> Record:
    """Asks for lists of heads of held-out links and judges them.

    Args:
        answers: from the view that the part is judged from.
        part: "test" or "valid".
        heads_sampled: see `heads_to_ask`.
        shown: what a bar on a terminal says is done; there is none by default.

    Returns:
        The figures, as `all_nodes`; where fewer heads were asked than by default, `fewer_heads` says why.
    """
    if heads_sampled == 0:
        return {}
    most, fewer = heads_to_ask(answers, heads_sampled)
    if fewer is not None:
        LOG.info(fewer)
    ranked = partial(best_tails, answers, known=task.train_view.out_rows, shown=shown)
    found = evaluate_lists(task, part, most, ranked)
    return found if fewer is None else {**found, "fewer_heads": fewer}
