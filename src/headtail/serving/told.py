"""How answers are made, told: as one object, in a sentence, and as rows of tables."""

from collections.abc import Mapping
from typing import Any

from headtail.errors import one_line
from headtail.serving.answering import Answering
from headtail.serving.choice import worth
from headtail.serving.held import BEST, KINDS
from headtail.serving.plan import FIGURES, FIRST, AnswerPlan
from headtail.serving.questions import Question
from headtail.training.observer import Record


def told(plan: AnswerPlan | None) -> Record:
    """Returns how answers are made, by a plan that may come from a stranger.

    Returns:
        choice: what ranks; "first scorer" over all nodes where there is no plan, and nothing else is told.
        candidates: how many a head has, about.
        budgets: how many each source proposes at most.
        held: see `AnswerPlan`.
        compared: everything that was compared on the validation links, the best first, with what it is worth.
        left_out: what was not compared, and why.
    """
    if plan is None:
        return {"choice": FIRST, "exact": True}
    table = sorted(plan.table, key=lambda each: -worth(each.figures))
    return {
        "choice": one_line(str(plan.choice)),
        "exact": False,
        "candidates": round(plan.per_head),
        "budgets": {name: budget for name, budget in plan.budgets.items() if budget},
        "held": dict(plan.held),
        "compared": [
            {"choice": one_line(str(each.choice)), **{name: each.figures[name] for name in FIGURES}} for each in table
        ],
        "left_out": {one_line(name): one_line(why) for name, why in plan.left_out.items()},
    }


def how(answers: Mapping[str, Any]) -> str:
    """Returns in one line how answers are made, of what `told` returns."""
    if answers["exact"]:
        return "ranked by the method's own score, over all nodes"
    text = f"ranked by {answers['choice']}"
    if answers["candidates"]:
        text += f", over about {answers['candidates']:,} candidates a head"
    if shares := ", ".join(f"{share} ({links})" for links, share in held_rows(answers)):
        text += f", which hold of the {BEST} best of all nodes: {shares}"
    return text


def how_asked(answering: Answering, question: Question) -> Record:
    """Returns how a question was answered: `exact`, what `choice` ranks, `how` in a line, and what candidates hold."""
    plan = None if question.exact else answering.plan
    answers = told(plan)
    facts: Record = {name: answers[name] for name in ("choice", "exact", "candidates", "held") if name in answers}
    allowed = question.allowed(answering.method.task.graph.names)
    if allowed is None:
        return {**facts, "how": how(answers)}
    # What was counted, was counted for candidates among all nodes.
    text = "ranked by the method's own score" if plan is None else f"ranked by {answers['choice']}"
    return {**facts, "how": f"{text}, among the {int(allowed.sum()):,} tails that were allowed"}


def held_rows(answers: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns what candidates hold, as the links of a head and a percentage."""
    held, rows, least = answers.get("held", {}), [], 0
    for kind, most in KINDS.items():
        links = f"over {least - 1} links" if most is None else f"{least or 'up'} to {most} links"
        if kind in held:
            rows.append((links, f"{100 * held[kind]:.0f} %"))
        least = (most or 0) + 1
    return rows


def compared_rows(answers: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Returns what was compared, as names and percentages."""
    return [(each["choice"], *(f"{100 * each[name]:.2f}" for name in FIGURES)) for each in answers.get("compared", [])]


def left_out_text(answers: Mapping[str, Any]) -> str:
    """Returns what was not compared and why; nothing where all was."""
    return "; ".join(f"{name}: {why}" for name, why in answers.get("left_out", {}).items())
