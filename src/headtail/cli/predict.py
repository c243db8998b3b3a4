"""`headtail predict`: scores of the pairs in a file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headtail.cli.options import Device, Evidence, Json, Run
from headtail.cli.output import print_frame, print_json, say
from headtail.errors import ConfigError, DataError
from headtail.given import check_files, check_table_file
from headtail.run_files import check_run

if TYPE_CHECKING:
    from headtail import LinkPredictor

ROWS_SHOWN = 20


def predict(
    run: Run,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS", help="pairs of node names as .csv, .tsv, .txt or .parquet")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="write the scores to .csv or .parquet")] = None,
    source_column: Annotated[str | None, typer.Option(metavar="NAME", help="column of the heads")] = None,
    target_column: Annotated[str | None, typer.Option(metavar="NAME", help="column of the tails")] = None,
    probability: Annotated[
        bool, typer.Option("--probability", metavar="", help="add probabilities, calibrated on the validation links")
    ] = False,
    prior: Annotated[
        float | None, typer.Option(metavar="float", help="share of true links among such pairs (default 0.5)")
    ] = None,
    evidence: Evidence = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Score pairs of nodes: the higher, the likelier the link.

    The answer has the columns head, tail and score, in the order of the file. Scores rank links, and are no
    probabilities; --probability adds those, by a calibration on the validation links as scored from training links.

    Every link of the data is evidence, held-out ones too, but no pair for itself; with --evidence training only the
    links that the test is scored from.

    Example:
        headtail predict runs/first pairs.csv
        headtail predict runs/first pairs.csv --out scores.parquet
        headtail predict runs/first pairs.csv --probability --prior 0.01
    """
    if out is not None:
        check_table_file(out)
    if prior is not None and not probability:
        raise ConfigError("--prior changes probabilities, which were not asked for; add --probability.")
    check_files([pairs])
    check_run(run)

    from headtail import LinkPredictor
    from headtail.datasets.edges import LinkColumns, read_links
    from headtail.datasets.tables import open_table
    from headtail.serving.evidence import FROM_TRAINING, chosen_evidence
    from headtail.serving.tables import write_table

    asked = read_links(pairs, LinkColumns(source_column, target_column))
    predictor = LinkPredictor.load(run, device)
    _warn_of_lost_pair(pairs, open_table(pairs).columns[:2], predictor)
    import pandas as pd

    frame = pd.DataFrame({"head": asked.heads, "tail": asked.tails})
    chosen = chosen_evidence(predictor.task, evidence)
    scores = predictor.predict(frame, probability, 0.5 if prior is None else prior, chosen)
    if evidence is None and chosen == "training":
        say(FROM_TRAINING)
    if out is not None:
        write_table([scores], out)
        say(f"wrote {len(scores):,} scores to {out}")
    if as_json:
        where = {"file": str(out)} if out else {"scores": scores.to_dict("records")}
        print_json({"run": str(run), "evidence": chosen, "rows": len(scores), **where})
    elif out is None:
        print_frame(scores, most=ROWS_SHOWN)


def _warn_of_lost_pair(file: Path, header: list[str], predictor: "LinkPredictor") -> None:
    """Says so where a file without a header lost its first pair to one."""
    try:
        predictor.task.graph.names.find(header)
    except DataError:
        return
    # Columns without a header are called 1, 2, …, which may be nodes too; nothing is lost then.
    if header != ["1", "2"]:
        say(f"{file}: line 1 ({', '.join(header)}) was read as the header, but both are nodes; add one to score them.")
