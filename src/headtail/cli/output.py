"""How commands speak: results on stdout, as tables or as one JSON object; everything else on stderr."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def say(message: str) -> None:
    """Tells the user something that is not the result."""
    print(message, file=sys.stderr, flush=True)


def which_rank() -> str:
    """Names the rank that speaks where there are several; not by `headtail.ranks`, which takes torch to import."""
    size, rank = os.environ.get("WORLD_SIZE", "1"), os.environ.get("RANK", "?")
    return "" if size in ("", "0", "1") else f" (rank {rank} of {size})"


def print_json(result: Mapping[str, object]) -> None:
    """Prints the one JSON object of a command."""
    print(json.dumps(result, indent=2, ensure_ascii=False))


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None, numbers: Iterable[int] = ()
) -> None:
    """Prints a table; the columns at the positions `numbers` are flushed right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_header=any(columns))
    right = set(numbers)
    for position, column in enumerate(columns):
        table.add_column(column, justify="right" if position in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))  # Text: a name may look like markup
    Console().print(table)


def print_frame(frame: "pd.DataFrame", title: str | None = None, most: int = 0) -> None:
    """Prints the rows of a frame, at most `most` of them if that is given."""
    shown = frame.head(most) if most else frame
    numbers = [i for i, name in enumerate(frame.columns) if name in ("score", "probability", "rank")]
    rows = (
        [_cell(name, cell) for name, cell in zip(shown.columns, row, strict=True)]
        for row in shown.itertuples(index=False)
    )
    print_table(list(frame.columns), rows, title, numbers)
    if len(shown) < len(frame):
        print(f"… and {len(frame) - len(shown):,} more rows; write all of them with --out FILE.csv")


def _cell(column: str, value: object) -> object:
    if not isinstance(value, float):
        return value
    # Probabilities of unlikely links are small, and four decimals would hide them.
    return f"{value:.4g}" if column == "probability" else f"{value:.4f}"


def _print_answers(answers: Mapping[str, Any]) -> None:
    """Prints how answers are made, and what else was compared."""
    from headtail.serving.plan import FIGURES
    from headtail.serving.told import compared_rows, how, left_out_text

    print(f"Answers are {how(answers)}.")
    if rows := compared_rows(answers):
        title = "compared on validation links, among all nodes (%)"
        print_table(["ranked by", *FIGURES], rows, title, numbers=range(1, 1 + len(FIGURES)))
    if left_out := left_out_text(answers):
        print(f"Not compared: {left_out}.")


def print_result(result: Mapping[str, Any], nodes: int) -> None:
    """Prints the metrics and the work per epoch of an evaluation on a graph of so many nodes."""
    from headtail.evaluation.figures import all_nodes_counts, all_nodes_heading, all_nodes_rows, sampled_rows

    print_table([f"{result['split']} metric", "%"], sampled_rows(result), numbers=[1])
    if lists := all_nodes_rows(result):
        print_table([all_nodes_heading(nodes), "%"], lists, all_nodes_counts(result), numbers=[1])
    if "answers" in result:
        _print_answers(result["answers"])
    if not any(result["per_epoch"].values()):
        return
    work = [(name.replace("_", " "), f"{count:,}") for name, count in result["per_epoch"].items()]
    print_table(["work per epoch", "count"], work, numbers=[1])
