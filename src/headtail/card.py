"""The model card of a run: what was trained on what, how well it does, how to use it."""

from headtail.config import Config
from headtail.evaluation.figures import all_nodes_counts, all_nodes_heading, all_nodes_rows, sampled_rows
from headtail.graph.task import LinkTask
from headtail.serving.evidence import chosen_evidence
from headtail.serving.held import BEST
from headtail.serving.plan import FIGURES
from headtail.serving.told import compared_rows, held_rows, how, left_out_text
from headtail.training.observer import Record
from headtail.training.task_method import TaskMethod


def model_card(method: TaskMethod, config: Config, result: Record, finished: bool) -> str:
    """Returns the card as Markdown."""
    task = method.task
    graph, split = task.graph, task.split
    kind = "directed" if graph.directed else "undirected"
    rows = _rows(sampled_rows(result))
    state = "" if finished else "\n**Training was interrupted**; the figures are those of the best epoch so far.\n"
    per_epoch = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in result["per_epoch"].items())
    counts = (split.train.shape[1], split.valid.positives.shape[1], split.test.positives.shape[1])
    sizes = ", ".join(f"{n:,} {name}" for n, name in zip(counts, ("training", "validation", "test"), strict=True))
    return f"""# Link predictor for {graph.source}
{state}
- Graph: {graph.num_nodes:,} nodes, {kind}; {sizes} links (split: {split.strategy}).
- {_sentence(graph.cleaning)}
- {_sentence(task.leaks)}
- Method: {config.model.method}: {method.summary}; seed {config.training.seed}.
- Training: {result["epochs"]} of {method.epochs} epochs, best {result["best_epoch"]}; {result["train_seconds"]:.1f} s.
- Protocol: {task.protocol}; evidence at test time: {_evidence(task)} links.
{_final(config, result, finished)}- Evidence of answers, unless asked for otherwise: {_answers(task)}.
- Work per epoch: {per_epoch}.

| test metric | % |
|---|---|
{rows}
{_lists(result, graph.num_nodes)}{_made(result)}
Scores rank links, and are not probabilities; `headtail predict --probability` adds those.

    headtail recommend THIS_FOLDER --heads NAME -k 10
"""


def _rows(rows: list[tuple[str, str]]) -> str:
    return "\n".join(f"| {name} | {percent} |" for name, percent in rows)


def _lists(result: Record, nodes: int) -> str:
    """Returns the table of what lists are worth; nothing where that was not measured."""
    rows = all_nodes_rows(result)
    if not rows:
        return f"\n{result['fewer_heads']}\n" if "fewer_heads" in result else ""
    fewer = f"\n{result['fewer_heads']}" if "fewer_heads" in result else ""
    return f"""
| {all_nodes_heading(nodes)} | % |
|---|---|
{_rows(rows)}

Measured on {all_nodes_counts(result)}: recall@K is the share of these links among the first K of their head's list,
mrr@50 the mean of 1/rank, 0 beyond rank 50; known links and other right answers take no place.
head_recall@20 and head_ndcg@20 are means over heads, whose other right answers take places.{fewer}
"""


def _made(result: Record) -> str:
    """Says how answers are made, and why so; nothing where no lists were asked for."""
    if "answers" not in result:
        return ""
    answers = result["answers"]
    found = f"\nAnswers are {how(answers)}.\n"
    if answers["exact"]:
        return found
    budgets = ", ".join(f"{name} {budget}" for name, budget in answers["budgets"].items())
    left_out = left_out_text(answers)
    rows = "\n".join(f"| {' | '.join(row)} |" for row in compared_rows(answers))
    found += f"""Each source proposes candidates, at most: {budgets}. What ranks them was chosen on validation links:

| validation links among all nodes, % | {" | ".join(FIGURES)} |
|---|---|---|---|
{rows}
"""
    if left_out:
        found += f"\nNot compared: {left_out}.\n"
    if held := held_rows(answers):
        shares = "\n".join(f"| {links} | {share} |" for links, share in held)
        found += f"""
| heads with | of the {BEST} best of all nodes by the method's own score, candidates |
|---|---|
{shares}
"""
    return found


def _sentence(told: object) -> str:
    """Makes a sentence of what a part says about itself; names in it keep their letters."""
    text = str(told)
    return f"{text[:1].upper()}{text[1:]}."


def _final(config: Config, result: Record, finished: bool) -> str:
    """Says that every figure is from before, where all links are learned in the end."""
    if not config.training.final or not finished or not result["best_epoch"]:
        return ""
    return (
        f"- Answers from every link are by a model that learned all of them for {result['best_epoch']} epochs.\n"
        "  **Every figure here is from before**, of the model that had not seen those held out.\n"
    )


def _answers(task: LinkTask) -> str:
    """Says which links `recommend` and `predict` look at."""
    if chosen_evidence(task) == "all":
        return "every link of the data, held-out ones too"
    return "the training links alone, since the graph is packed"


def _evidence(task: LinkTask) -> str:
    """Says which links the test's scorer may look at."""
    if task.protocol == "val-as-train":
        return "train (validation links among them)"
    return "train" if task.test_view is task.train_view else "train+valid"
