"""Results as Markdown tables in the paper's shape: mean ± std, gap, time, and the paper's figure where it has one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headtail.evaluation.figures import metric_text
from headtail.experiments.published import DATA, published
from headtail.experiments.results import RunResult, Summary, summarise
from headtail.experiments.variants import Variant, variant_named

NOTHING = "–"


@dataclass(frozen=True)
class Part:
    """Rows of a table: methods, and the one whose accuracy is subtracted to get the gap (None: no gap)."""

    title: str
    methods: Sequence[str]
    base: str | None = None


@dataclass(frozen=True)
class TableSpec:
    """One table of the paper."""

    name: str
    title: str
    parts: Sequence[Part]
    time: bool

    @property
    def variants(self) -> list[Variant]:
        names = dict.fromkeys(name for part in self.parts for name in part.methods)
        return [variant_named(name) for name in names]


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a Markdown table, numbers flushed right; a bar inside a cell is escaped."""
    rule = ["---"] + ["---:"] * (len(columns) - 1)
    lines = [columns, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def seconds_text(seconds: float | None) -> str:
    """Returns seconds with two or three significant digits."""
    if seconds is None:
        return NOTHING
    return f"{seconds:.2g}" if seconds < 1 else f"{seconds:,.1f}" if seconds < 100 else f"{seconds:,.0f}"


@dataclass(frozen=True)
class Results:
    """The results of a grid, by data set and method."""

    results: Sequence[RunResult]

    def of(self, data: str, method: str) -> list[RunResult]:
        return [result for result in self.results if (result.data, result.method) == (data, method)]

    def summary(self, data: str, method: str) -> Summary | None:
        return summarise(self.of(data, method))

    def judged_by(self, data: str, method: str | None = None) -> list[str]:
        """Returns metric and protocol of a data set or of one method on it; figures of two do not compare."""
        runs = [run for run in self.results if run.data == data and method in (None, run.method)]
        return list(dict.fromkeys(map(_judged_by, runs)))

    def metric(self, data: str) -> str:
        """Returns metric and protocol of a data set, all of them if there are several."""
        runs = [run for run in self.results if run.data == data]
        counts = {run.negatives for run in runs}
        negatives = counts.pop() if len(counts) == 1 else None
        return " / ".join(dict.fromkeys(_judged_by(run, negatives) for run in runs)) or "no runs"


def _judged_by(result: RunResult, negatives: int | None = None) -> str:
    metric = metric_text(result.metric, negatives)
    seen = " + valid. links at test" if result.test_graph == "train+valid" else ""
    return f"{metric} (%), {result.protocol}{seen}"


def accuracy_table(spec: TableSpec, data: Sequence[str], found: Results) -> str:
    """Returns a table: a part per block, methods down, data sets across."""
    blocks = []
    for part in spec.parts:
        columns = ["method"]
        for name in data:
            columns.append(f"{name}: {found.metric(name)}")
            columns += ["gap"] if part.base else []
            columns += ["time (s)"] if spec.time else []
            columns += ["paper"] if name in DATA else []
            columns += ["paper's time (s)"] if name in DATA and spec.time else []
        best = {name: _best(name, part.methods, found) for name in data}
        rows = [_row(method, part, spec.time, data, found, best) for method in part.methods]
        heading = f"**{part.title}**\n\n" if part.title else ""
        blocks.append(heading + markdown_table(columns, rows))
    return "\n\n".join(blocks)


def _best(data: str, methods: Sequence[str], found: Results) -> float | None:
    """Returns the best accuracy of some methods; None where there is none, or where figures do not compare."""
    means = [summary.mean for method in methods if (summary := found.summary(data, method)) is not None]
    return max(means, default=None) if len(found.judged_by(data)) == 1 else None


def _row(
    method: str, part: Part, time: bool, data: Sequence[str], found: Results, best: dict[str, float | None]
) -> list[str]:
    cells = [variant_named(method).label]
    for name in data:
        summary = found.summary(name, method)
        own = found.judged_by(name, method)
        accuracy = _accuracy(summary, best[name])
        # Where figures do not compare, each says what it is, and none is the best.
        cells.append(f"{accuracy} ({', '.join(own)})" if best[name] is None and own else accuracy)
        if part.base:
            base = found.summary(name, part.base)
            shown = method != part.base and own == found.judged_by(name, part.base)
            cells.append(f"{summary.mean - base.mean:+.2f}" if shown and summary and base else NOTHING)
        if time:
            cells.append(seconds_text(None if summary is None else summary.seconds))
        if name in DATA:
            figure = published(name, method)
            cells.append(NOTHING if figure is None else str(figure))
            if time:
                cells.append(NOTHING if figure is None or figure.seconds is None else f"{figure.seconds:.1e}")
    return cells


def _accuracy(summary: Summary | None, best: float | None) -> str:
    if summary is None:
        return NOTHING
    text = str(summary) if summary.runs > 1 else f"{summary.mean:.2f}"
    return f"**{text}**" if summary.mean == best else text


def cost_table(data: Sequence[str], methods: Sequence[str], found: Results) -> str:
    """Returns what accuracy cost: steps differ between methods, so links and node encodings are told too."""
    columns = [
        "data, method",
        "epochs",
        "links per epoch",
        "s per epoch",
        "µs per link",
        "GNN encodings per epoch",
        "MLP encodings per epoch",
    ]
    rows = []
    for name in data:
        for method in methods:
            runs = [run for run in found.of(name, method) if run.epochs > 0]
            if runs:
                rows.append([f"{name}, {variant_named(method).label}", *_cost(runs)])
    return markdown_table(columns, rows)


def _cost(runs: list[RunResult]) -> list[str]:
    one, summary = runs[0], summarise(runs)
    assert summary is not None
    per_epoch = None if summary.seconds is None else summary.seconds / one.epochs
    per_link = None if per_epoch is None or not one.links else 1e6 * per_epoch / one.links
    return [
        f"{one.epochs}",
        f"{one.links:,}",
        seconds_text(per_epoch),
        seconds_text(per_link),
        f"{one.per_epoch['gnn_node_encodings']:,}",
        f"{one.per_epoch['mlp_node_encodings']:,}",
    ]
