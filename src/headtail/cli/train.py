"""`headtail train`: from links to a run folder."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from headtail.cli.log import LOG
from headtail.cli.options import Data, HeadsSampled, Json, Options, check_source
from headtail.cli.output import print_json, print_result, say, which_rank
from headtail.config import make_config
from headtail.presets import DEFAULT_PRESET
from headtail.run_files import CHECKPOINT_FILE, CONFIG_FILE, check_folder

if TYPE_CHECKING:
    from headtail import LinkPredictor

INTERRUPTED = 130


def train(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="folder to write the run to")],
    source: Options,
    settings: Options,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="strong (most accurate; default), fast (smaller) or paper (as published)"),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="YAML of settings; overrides the preset, flags override it")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar="", help="go on after the last finished epoch of RUN")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="replace the run in RUN")] = False,
    heads_sampled: HeadsSampled = None,
    as_json: Json = False,
) -> int:
    """Learn which links a graph is missing, and save the model as a run folder.

    Settings come from the preset, then the YAML file, then the flags. The best epoch on the validation links
    is kept; Ctrl-C keeps the best so far.

    Example:
        headtail train links.csv --out runs/first
        headtail train cites.parquet --features x.npy --epochs 25 --out runs/cites
        headtail train debian --out runs/debian --resume
    """
    if resume and preset is None and config is None and (out / CONFIG_FILE).is_file():
        # A resumed run goes on with its own settings; that file names all of them, so no preset shines through.
        preset, config = "paper", out / CONFIG_FILE
    chosen = make_config(preset or DEFAULT_PRESET, config, settings)
    check_source(data, source)
    if not which_rank():  # of several ranks the first alone looks, when all have met
        check_folder(out, resume, overwrite)

    from headtail import LinkPredictor
    from headtail.ranks import joined
    from headtail.training.learner import resolve_device

    predictor = LinkPredictor(config=chosen)
    device = chosen.training.device
    resolve_device(device)  # a wrong one is told before the data is read
    with joined(device) as ranks:
        code = _fit(predictor, data, source, out, resume, overwrite, heads_sampled)
    if ranks.leads and predictor.result is not None:
        _report(predictor, out, predictor.result, as_json)
    return code


def _fit(
    predictor: "LinkPredictor",
    data: str,
    source: Options,
    out: Path,
    resume: bool,
    overwrite: bool,
    heads_sampled: int | None,
) -> int:
    """Reads the data and trains; returns the exit code."""
    from headtail import load
    from headtail.ranks import current

    leads = current().leads
    if leads:
        check_folder(out, resume, overwrite)
    graph = load(data, **source)
    try:
        with _nothing_half_written(out) if leads else nullcontext():
            predictor.fit(graph, out, resume=resume, overwrite=overwrite, say=LOG.info, heads_sampled=heads_sampled)
    except KeyboardInterrupt as interrupt:
        if leads:
            say(str(interrupt) or "interrupted.")
        return INTERRUPTED
    return 0 if predictor.finished else INTERRUPTED


def _report(predictor: "LinkPredictor", out: Path, result: Options, as_json: bool) -> None:
    """Prints how well the model does, and what to do with it."""
    if not predictor.finished:
        say(
            f"training was interrupted after epoch {result['epochs']}; the best model so far "
            f"(epoch {result['best_epoch']}) is saved. Go on with the same command and --resume."
        )
    if as_json:
        print_json({"run": str(out), "finished": predictor.finished, **result})
        return
    graph = predictor.task.graph
    print_result(result, graph.num_nodes)
    if predictor.answering.final is not None:
        print(
            f"Then all links were learned, held-out ones too, for {result['best_epoch']} epochs, and answers are by "
            "that model: every figure above is from before."
        )
    _print_next(out, str(graph.names.array()[0]), min(10, graph.num_nodes - 1), result)


def _print_next(out: Path, name: str, k: int, result: Options) -> None:
    """Says where the run is and what to do with it, in commands that can be pasted."""
    run = quote(str(out))
    epochs = f"best epoch {result['best_epoch']} of {result['epochs']}, {result['train_seconds']:.1f} s of training"
    print(
        f"The run is in {out}: {epochs if result['epochs'] else 'this method learns nothing'}. Next:\n"
        f"  headtail recommend {run} --heads {quote(name)} -k {k}\n"
        f"  headtail recommend {run} --out links.parquet\n"
        f"  headtail predict {run} pairs.csv"
    )


@contextmanager
def _nothing_half_written(folder: Path) -> Iterator[None]:
    """Takes away what a failing command wrote, unless a finished epoch is there to resume from."""
    before = set(folder.iterdir()) if folder.is_dir() else None
    try:
        yield
    except BaseException:
        if not (folder / CHECKPOINT_FILE).exists():
            if before is None:
                shutil.rmtree(folder, ignore_errors=True)
            else:
                for path in set(folder.iterdir()) - before:
                    path.unlink()
        raise
