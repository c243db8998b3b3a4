"""`pack`: from edge lists of any size to a folder of mapped arrays, in bounded memory and in stages.

All work is done in a folder beside the one that is asked for, under another name. Finished stages are recorded there,
so an interrupted packing goes on after the last of them; only a finished store is given its name.
"""

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from headtail.datasets.edges import LinkColumns
from headtail.errors import DataError, HeadtailError
from headtail.files import write_text
from headtail.given import MANIFEST_FILE, check_split, is_packed
from headtail.graph.packed.engine import Engine
from headtail.graph.packed.features import open_matrix
from headtail.graph.packed.hold_out import HoldOut
from headtail.graph.packed.manifest import (
    NAMES_FILE,
    VERSION,
    ArrayFacts,
    Manifest,
    digest_of,
    layout_of,
)
from headtail.graph.packed.sources import open_file, open_links
from headtail.graph.packed.stages import STAGES, Facts, Request, Work
from headtail.memory import available_bytes
from headtail.progress import counting

RECORD_FILE, LOCK_FILE = "finished-stages.json", "lock"
# What DuckDB may use of the memory that is there.
MEMORY_SHARE = 0.4
Say = Callable[[str], None]


def pack(
    links: Sequence[str | Path],
    out: str | Path,
    *,
    features: str | Path | None = None,
    nodes: str | Path | None = None,
    source_column: str | None = None,
    target_column: str | None = None,
    time_column: str | None = None,
    node_column: str | None = None,
    directed: bool = True,
    valid: str | Path | None = None,
    test: str | Path | None = None,
    drop_leaks: bool = False,
    hold_out: HoldOut | None = None,
    memory: float | None = None,
    overwrite: bool = False,
    say: Say | None = None,
) -> Manifest:
    """Packs links into a folder that `headtail.load` maps instead of reading.

    Args:
        links: Parquet, CSV or TSV files of links, all with the same columns.
        out: folder to write; it appears when it is complete. Run again after an interruption, the packing goes on.
        features: .npy with a row per node.
        nodes: table of all ids in the order they shall be numbered in, which is that of the features.
        source_column, target_column, time_column, node_column, directed: as of `headtail.load`.
        valid, test: held-out links of a split of your own.
        drop_leaks: leave out links to train on that are also held out, instead of refusing.
        hold_out: how links are held out where none are given.
        memory: GiB that sorting may use, by default a share of what is free.
        overwrite: replace what is packed in `out`.
        say: receives what is done, one sentence at a time.

    Raises:
        DataError: with what is wrong, where, and what to do.
    """
    target, tell = Path(out), say or (lambda _sentence: None)
    columns = LinkColumns(source_column, target_column, time_column)
    if not links:
        raise DataError("no file of links is given")
    check_split(valid, test)
    request = Request(
        links=tuple(Path(path) for path in links),
        features=_path(features),
        nodes=_path(nodes),
        valid=_path(valid),
        test=_path(test),
        columns=columns,
        node_column=node_column,
        directed=directed,
        drop_leaks=drop_leaks,
        hold_out=hold_out or HoldOut(),
    )
    _check_target(target, overwrite)
    _look_at(request)
    folder = target.with_name(f".{target.name}.packing")
    budget = int(MEMORY_SHARE * available_bytes()) if memory is None else int(memory * 2**30)
    with _alone(folder, target):
        record = _taken_up(folder, _identity(request), tell)
        spill = folder / "spill"
        shutil.rmtree(spill, ignore_errors=True)
        engine = Engine(budget, spill)
        try:
            _run_stages(Work(request, folder, engine, {}), record, tell)
        except DataError:  # with other files or settings there is nothing to go on from
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            engine.close()
        manifest = _finish(request, folder, target, record)
    return manifest


def _look_at(request: Request) -> None:
    """Tells what is wrong at first sight before hours of work."""
    for path in request.links:
        open_links(path, request.columns)
    for held_out in (request.valid, request.test):
        if held_out is not None:
            open_links(held_out, LinkColumns(request.columns.source, request.columns.target))
    if request.nodes is not None:
        open_file(request.nodes)
    if request.features is not None:
        open_matrix(request.features)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)


def _run_stages(work: Work, record: dict[str, Facts], tell: Say) -> None:
    for number, (name, stage) in enumerate(STAGES.items(), 1):
        if name not in record:
            with counting(f"{number}/{len(STAGES)} {name}", 1.0) as advance:
                record[name] = stage(work, advance)
            _write_record(work.folder, _identity(work.request), record)
            tell(f"{number}/{len(STAGES)} {name}: done.")
        work.facts |= record[name]


def _finish(request: Request, folder: Path, target: Path, record: dict[str, Facts]) -> Manifest:
    """Writes the manifest, leaves nothing but the store, and gives it its name."""
    facts: Facts = {name: value for stage in record.values() for name, value in stage.items()}
    names = folder / NAMES_FILE
    described = {
        "version": VERSION,
        "source": str(request.links[0]),
        "directed": request.directed,
        "names_digest": digest_of(names) if facts["named"] else None,
        **{name: facts[name] for name in ("num_nodes", "strategy", "self_loops", "duplicates", "dropped")},
    }
    timed, featured = request.columns.time is not None, request.features is not None
    layout = layout_of(int(facts["num_nodes"]), request.directed, timed, featured)
    found = {}
    with counting("checking sums", len(layout)) as advance:
        for name, (dtype, _) in layout.items():
            path = folder / f"{name}.npy"
            found[name] = ArrayFacts(dtype=dtype, shape=_shape(path), digest=digest_of(path))  # type: ignore[arg-type]
            advance(1)
    manifest = Manifest.model_validate({**described, "arrays": found})
    write_text(folder / MANIFEST_FILE, manifest.model_dump_json(indent=2) + "\n")
    kept = {MANIFEST_FILE, NAMES_FILE if facts["named"] else "", *(f"{name}.npy" for name in layout)}
    _clear(folder, kept | {RECORD_FILE, LOCK_FILE})
    if target.exists():
        old = target.with_name(f".{target.name}.replaced")
        target.replace(old)
        folder.replace(target)
        shutil.rmtree(old)
    else:
        folder.replace(target)
    _clear(target, kept)  # the record until now, so that an interruption costs nothing
    return manifest


def _clear(folder: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        if path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _shape(path: Path) -> list[int]:
    from numpy.lib import format as npy

    with path.open("rb") as file:
        npy.read_magic(file)
        return list(npy.read_array_header_1_0(file)[0])


def _check_target(target: Path, overwrite: bool) -> None:
    if target.exists() and not is_packed(target):
        raise HeadtailError(f"{target} exists and is no packed graph; choose another --out, or remove it.")
    if target.exists() and not overwrite:
        raise HeadtailError(f"{target} is packed already; replace it with --overwrite, or choose another --out.")


def _identity(request: Request) -> str:
    """Returns what a packing depends on, files with their sizes and times of change."""
    files = [*request.links, request.features, request.nodes, request.valid, request.test]
    stats = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path is not None]
    return json.dumps([VERSION, stats, asdict(request)], default=str)


def _taken_up(folder: Path, identity: str, tell: Say) -> dict[str, Facts]:
    """Returns the finished stages of an interrupted packing of the same; what is left of another one goes."""
    path = folder / RECORD_FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["identity"] == identity:
            stages: dict[str, Facts] = found["stages"]
            tell(f"going on after an interruption: {len(stages)} of {len(STAGES)} stages are done.")
            return stages
        tell("what an interrupted packing of other files or settings left is removed.")
    except (OSError, ValueError, KeyError, TypeError):
        pass
    _clear(folder, {LOCK_FILE})
    return {}


def _write_record(folder: Path, identity: str, stages: dict[str, Facts]) -> None:
    write_text(folder / RECORD_FILE, json.dumps({"identity": identity, "stages": stages}))


@contextmanager
def _alone(folder: Path, target: Path) -> Iterator[None]:
    """Makes the folder to work in, and refuses if another process is working there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK_FILE, os.O_CREAT | os.O_RDWR)
    except OSError as error:
        raise HeadtailError(f"cannot write beside {target}: {error.strerror or error}.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise HeadtailError(
                f"another process is packing {target}; wait for it, or choose another --out."
            ) from error
        yield
    except OSError as error:
        raise HeadtailError(
            f"cannot pack {target}: {error.strerror or error}; what is done is kept, run the command again to go on."
        ) from error
    finally:
        os.close(lock)
