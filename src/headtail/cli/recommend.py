"""`headtail recommend`: the likeliest new links of some nodes, or of all."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from headtail.cli.given_names import from_stdin, given_names
from headtail.cli.options import Device, Evidence, Json, Run
from headtail.cli.output import print_frame, print_json, say
from headtail.errors import ConfigError, HeadtailError
from headtail.given import check_table_file
from headtail.run_files import ANSWERS_FILE, MODEL_FILE, check_run

LeaveOut: TypeAlias = Literal["known", "training", "nothing"]


def recommend(
    run: Run,
    heads: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="node names; all nodes by default; - reads one per line of standard input"),
    ] = None,
    heads_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="text file with a node name per line, instead of --heads")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="int", help="links per head")] = 10,
    tails: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="the only tails to answer with; all nodes by default")
    ] = None,
    tails_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="text file with a node name per line, instead of --tails")
    ] = None,
    exclude: Annotated[str | None, typer.Option(metavar="A,B,C", help="tails not to answer with")] = None,
    exclude_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="text file with a node name per line, instead of --exclude")
    ] = None,
    leave_out: Annotated[
        LeaveOut | None,
        typer.Option(
            help="links not to answer with: all that the data has (known, the default), those learned from, or none",
            show_default=False,
        ),
    ] = None,
    include_known: Annotated[
        bool, typer.Option("--include-known", metavar="", help="the same as --leave-out nothing")
    ] = False,
    exact: Annotated[
        bool, typer.Option("--exact", metavar="", help="rank all nodes by the method's own score, that of predict")
    ] = False,
    probability: Annotated[
        bool, typer.Option("--probability", metavar="", help="add probabilities, calibrated on the validation links")
    ] = False,
    prior: Annotated[
        float | None, typer.Option(metavar="float", help="share of true links among such pairs (default 0.5)")
    ] = None,
    evidence: Evidence = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write the links to .parquet or .csv")] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Find the k likeliest new links of each head.

    Cheap rules propose candidates, and what was best on the validation links ranks them; --exact ranks all nodes by
    the method's own score. The answer has the columns head, tail, score and rank; scores compare within one head.

    All nodes are answered for in little memory, block by block, into the file of --out. If that is cut short, the same
    command goes on after the last finished part.

    Names stand between commas, those that have commas in quotation marks; in a file each has a line. The name - for
    one of the lists of names reads its lines from stdin.

    Every link of the data is evidence, held-out ones too; with --evidence training only those that the test is
    scored from.

    Example:
        headtail recommend runs/debian --heads firefox-esr,vim -k 5
        headtail recommend runs/debian --heads '"a name, with a comma",another'
        headtail recommend runs/debian --heads vim --tails-file editors.txt --exact
        headtail recommend runs/debian --out links.parquet
    """
    asked = {"--heads": (heads, heads_file), "--tails": (tails, tails_file), "--exclude": (exclude, exclude_file)}
    if sum(from_stdin(*each) for each in asked.values()) > 1:
        raise HeadtailError("only one list of names can be read from stdin (-); put the others into files.")
    given = [given_names(option, *each) for option, each in asked.items()]
    if prior is not None and not probability:
        raise ConfigError("--prior changes probabilities, which were not asked for; add --probability.")
    if probability:
        prior = 0.5 if prior is None else prior
    left_out = _known(leave_out, include_known)
    if out is not None:
        check_table_file(out)
    elif given[0] is None:
        raise HeadtailError("answers for all nodes go to a file: add --out FILE.parquet, or choose --heads.")
    check_run(run)

    import torch

    from headtail import LinkPredictor
    from headtail.files import file_digest
    from headtail.ranks import joined
    from headtail.serving.evidence import FROM_TRAINING, chosen_evidence
    from headtail.serving.parts import write_in_parts
    from headtail.serving.questions import Question, digest
    from headtail.serving.told import how_asked

    if not exact:
        _import_trees(run / ANSWERS_FILE)
    with joined(device) as ranks:
        predictor = LinkPredictor.load(run, device)
        chosen = chosen_evidence(predictor.task, evidence)
        start = time.perf_counter()
        graph_names = predictor.task.graph.names
        names, among, without = (None if each is None else each.among(graph_names) for each in given)
        nodes = torch.arange(graph_names.num_nodes) if names is None else graph_names.find(names, "--heads")
        count = nodes.numel()
        question = Question(k, left_out, chosen, among, without, exact)
        # Asked first: what is wrong with a question is told before anything is written.
        key = f"{file_digest(run / MODEL_FILE)} {digest(predictor.answering, nodes, question, prior)}"
        with _progress(count, ranks.leads) as advance:
            if out is None:
                import pandas as pd

                frames = list(predictor.recommend_blocks(names, question, advance, prior))
                links = pd.concat(frames, ignore_index=True)
                rows = len(links)
            else:
                heads_asked = graph_names.array().tolist() if names is None else names
                rows = write_in_parts(
                    lambda first, last: predictor.recommend_blocks(heads_asked[first:last], question, advance, prior),
                    count,
                    out,
                    key,
                )
        made = how_asked(predictor.answering, question)
    if not ranks.leads:
        return
    seconds = time.perf_counter() - start
    target = "" if out is None else f" to {out}"
    say(f"{rows:,} links for {count:,} heads in {seconds:.1f} s{target}")
    say(made["how"])
    if evidence is None and chosen == "training":
        say(FROM_TRAINING)
    if as_json:
        where = {"file": str(out)} if out else {"links": links.to_dict("records")}
        facts = {"run": str(run), "evidence": chosen, "heads": count, "rows": rows, "seconds": seconds, **made}
        print_json(facts | where)
    elif out is None:
        print_frame(links)


def _known(leave_out: LeaveOut | None, include_known: bool) -> LeaveOut:
    """Returns what is not to be answered with: of all that the data has, by default."""
    if include_known and leave_out not in (None, "nothing"):
        raise ConfigError(f"--include-known answers with known links, --leave-out {leave_out} does not; give one.")
    return "nothing" if include_known else leave_out or "known"


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


def _import_trees(plan: Path) -> None:
    """Imports LightGBM, where a plan has trees, without scikit-learn, which it looks for but needs for nothing here.

    That would take a second and a half of a command that takes four.
    """
    if "sklearn" in sys.modules or not plan.is_file() or b'"trees": {}' in plan.read_bytes():
        return
    sys.modules["sklearn"] = None  # type: ignore[assignment]
    try:
        import lightgbm  # noqa: F401
    finally:
        del sys.modules["sklearn"]
