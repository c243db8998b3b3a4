"""`headtail recommend`: the likeliest new links of some nodes, or of all."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from headtail.cli.options import Device, Evidence, Json, Run
from headtail.cli.output import print_frame, print_json, say
from headtail.errors import DataError, HeadtailError
from headtail.given import check_table_file
from headtail.run_files import MODEL_FILE, check_run


def recommend(
    run: Run,
    heads: Annotated[str | None, typer.Option(metavar="A,B,C", help="node names; all nodes by default")] = None,
    heads_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="text file with a node name per line, instead of --heads")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="int", help="links per head")] = 10,
    include_known: Annotated[
        bool, typer.Option("--include-known", metavar="", help="also answer with links the data already has")
    ] = False,
    evidence: Evidence = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write the links to .parquet or .csv")] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Find the k likeliest new links of each head, exactly, among all nodes.

    The answer has the columns head, tail, score and rank. All nodes are answered for in little memory, block
    by block, into the file of --out. If that is cut short, the same command goes on after the last finished part.

    Every link of the data is evidence, held-out ones too; with --evidence training only those that the test is
    scored from.

    Example:
        headtail recommend runs/debian --heads firefox-esr,vim -k 5
        headtail recommend runs/debian --out links.parquet
    """
    names = _names(heads, heads_file)
    if out is not None:
        check_table_file(out)
    elif names is None:
        raise HeadtailError("answers for all nodes go to a file: add --out FILE.parquet, or choose --heads.")
    check_run(run)

    from headtail import LinkPredictor
    from headtail.files import file_digest
    from headtail.ranks import joined
    from headtail.serving.evidence import FROM_TRAINING, chosen_evidence
    from headtail.serving.parts import write_in_parts
    from headtail.serving.questions import Question

    with joined(device) as ranks:
        predictor = LinkPredictor.load(run, device)
        chosen = chosen_evidence(predictor.task, evidence)
        start = time.perf_counter()
        count = predictor.task.graph.num_nodes if names is None else len(names)
        leave_out: Literal["nothing", "known"] = "nothing" if include_known else "known"
        question = Question(k, leave_out, chosen)
        with _progress(count, ranks.leads) as advance:
            if out is None:
                import pandas as pd

                links = pd.concat(list(predictor.recommend_blocks(names, question, advance)), ignore_index=True)
                rows = len(links)
            else:
                asked = predictor.task.graph.names.array().tolist() if names is None else names
                key = f"{file_digest(run / MODEL_FILE)} {asked} {k} {leave_out} {chosen}"
                rows = write_in_parts(
                    lambda first, last: predictor.recommend_blocks(asked[first:last], question, advance),
                    count,
                    out,
                    key,
                )
    if not ranks.leads:
        return
    seconds = time.perf_counter() - start
    target = "" if out is None else f" to {out}"
    say(f"{rows:,} links for {count:,} heads in {seconds:.1f} s{target}")
    if evidence is None and chosen == "training":
        say(FROM_TRAINING)
    if as_json:
        where = {"file": str(out)} if out else {"links": links.to_dict("records")}
        facts = {"run": str(run), "evidence": chosen, "heads": count, "rows": rows, "seconds": seconds}
        print_json(facts | where)
    elif out is None:
        print_frame(links)


def _names(heads: str | None, file: Path | None) -> list[str | int] | None:
    """Returns the names asked for; None means all nodes."""
    if heads is not None and file is not None:
        raise HeadtailError("give --heads or --heads-file, not both.")
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise DataError(f"cannot read {file}: {reason}; it should hold a node name per line.") from error
        found = text.splitlines()
    elif heads is not None:
        found = heads.split(",")
    else:
        return None
    names: list[str | int] = [name.strip() for name in found if name.strip()]
    if not names:
        raise DataError(f"{file or '--heads'} names no node.")
    return names


@contextmanager
def _progress(heads: int, shown: bool) -> Iterator[Callable[[int], None]]:
    """Shows a bar of heads answered on a terminal; yields what to call with those just finished."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda _finished: None
        return

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("heads"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("heads", total=heads)
        yield lambda finished: bar.advance(task, finished)
