"""The model card of a run: what was trained on what, how well it does, how to use it."""

from headtail.config import Config
from headtail.graph.task import LinkTask
from headtail.training.observer import Record
from headtail.training.task_method import TaskMethod


def model_card(method: TaskMethod, config: Config, result: Record, finished: bool) -> str:
    """Returns the card as Markdown."""
    task = method.task
    graph, split = task.graph, task.split
    kind = "directed" if graph.directed else "undirected"
    metrics = {name: value for name, value in result.items() if name == "mrr" or name.startswith("hits@")}
    rows = "\n".join(f"| {name} | {100 * value:.2f} |" for name, value in metrics.items())
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
- Work per epoch: {per_epoch}.

| test metric | % |
|---|---|
{rows}

Scores rank links, and are not probabilities; `headtail predict --probability` adds those.

    headtail recommend THIS_FOLDER --heads NAME -k 10
"""


def _sentence(told: object) -> str:
    """Makes a sentence of what a part says about itself; names in it keep their letters."""
    text = str(told)
    return f"{text[:1].upper()}{text[1:]}."


def _evidence(task: LinkTask) -> str:
    """Says which links the test's scorer may look at."""
    if task.protocol == "val-as-train":
        return "train (validation links among them)"
    return "train" if task.test_view is task.train_view else "train+valid"
