"""The stages of packing: each reads files, writes others, and can be done again from its beginning."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headtail.datasets.edges import LinkColumns
from headtail.errors import DataError
from headtail.graph.packed.arrays import (
    GrowingArray,
    blocks_of,
    count_rows,
    distinct,
    mapped,
    merged,
    new_array,
    read_keys,
    write_pointers,
    write_rows,
)
from headtail.graph.packed.engine import BLOCK_ROWS, Engine, Ints
from headtail.graph.packed.features import open_matrix, write_features
from headtail.graph.packed.hold_out import (
    LEFT_OUT,
    TEST,
    TRAIN,
    VALID,
    GivenParting,
    HoldOut,
    Parting,
    RandomParting,
    TimeParting,
)
from headtail.graph.packed.manifest import NAMES_FILE
from headtail.graph.packed.numbering import Numbering, by_order, by_rows, by_table, link_sql
from headtail.graph.packed.sources import LinkFile, look, open_links
from headtail.progress import Advance

# Numbers of a stage that later ones, the manifest, and a packing that is taken up again need.
Facts = dict[str, int | bool | str]


@dataclass(frozen=True)
class Request:
    """What to pack: files, columns, and how links are held out."""

    links: tuple[Path, ...]
    features: Path | None
    nodes: Path | None
    valid: Path | None
    test: Path | None
    columns: LinkColumns
    node_column: str | None
    directed: bool
    drop_leaks: bool
    hold_out: HoldOut


@dataclass
class Work:
    """A packing that is under way: what is asked for, where it is done, and what was found so far."""

    request: Request
    folder: Path
    engine: Engine
    facts: Facts

    @property
    def nodes(self) -> int:
        return int(self.facts["num_nodes"])

    @property
    def numbering(self) -> Numbering:
        named = self.folder / NAMES_FILE if self.facts["named"] else None
        return Numbering(self.nodes, named, bool(self.facts["integer_ids"]))

    @property
    def timed(self) -> bool:
        return self.request.columns.time is not None

    def files(self) -> list[LinkFile]:
        """Returns the files of links to train on."""
        return [open_links(path, self.request.columns) for path in self.request.links]

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.npy"


def read_ids(work: Work, advance: Advance) -> Facts:
    """Reads all files once, and numbers the nodes."""
    files = work.files()
    held = [path for path in (work.request.valid, work.request.test) if path is not None]
    plain = LinkColumns(work.request.columns.source, work.request.columns.target)
    others = [open_links(path, plain) for path in held]
    found = []
    for links in [*files, *others]:
        found.append(look(work.engine, links))
        advance(0.5 / (len(files) + len(others)))
    integers, own = all(one.integers for one in found), found[: len(files)]
    if any(one.self_loops for one in found[len(files) :]):
        raise DataError("validation or test links hold self-loops, which are no links; remove them")
    numbering = _number(work, files, others, integers)
    advance(0.5)
    return {
        "rows": sum(one.rows for one in own),
        "self_loops": sum(one.self_loops for one in own),
        "whole_times": all(one.whole_times for one in own),
        "num_nodes": numbering.num_nodes,
        "named": numbering.named is not None,
        "integer_ids": numbering.integers,
    }


def sort_links(work: Work, advance: Advance) -> Facts:
    """Writes every link once, as sorted keys head · N + tail; a link that repeats is dated by its first time."""
    query = " UNION ALL ".join(
        link_sql(links, work.numbering, work.request.directed, whole_times=bool(work.facts["whole_times"]))
        for links in work.files()
    )
    order = "key, time" if work.timed else "key"
    rows = max(1, int(work.facts["rows"]) - int(work.facts["self_loops"]))
    seen, last = 0, -1
    with GrowingArray(work.path("all_keys")) as keys, GrowingArray(work.path("all_times")) as times:
        for block in work.engine.arrays(f"SELECT {order} FROM ({query}) ORDER BY {order}"):
            new = np.diff(block[0], prepend=last) != 0
            last, seen = int(block[0][-1]), seen + len(new)
            keys.append(block[0][new])
            if work.timed:
                times.append(block[1][new])
            advance(len(new) / rows)
        found = keys.length
    if found == 0:
        raise DataError("there are no links but self-loops; give an edge list with at least one link between two nodes")
    return {"duplicates": seen - found}


def hold_out(work: Work, advance: Advance) -> Facts:
    """Parts the links into those to train on, those held out, and those left out."""
    keys, nodes = mapped(work.path("all_keys")), work.nodes
    times = mapped(work.path("all_times")) if work.timed else None
    given = [_given(work, path) for path in (work.request.valid, work.request.test) if path is not None]
    parting = _part(work, keys, times, given)
    kept = sum(int(np.count_nonzero(codes == TRAIN)) for _, codes in parting.codes(BLOCK_ROWS))
    if kept == 0:
        raise DataError("no link is left to train on; hold out fewer")
    drawn: dict[int, list[Ints]] = {VALID: [], TEST: []}
    counts, done = np.zeros(nodes + 1, dtype=np.int64), 0
    with (
        new_array(work.path("links"), "<i8", (2, kept)) as links,
        GrowingArray(work.path("times")) as kept_times,
        GrowingArray(work.path("left_out")) as left_out,
    ):
        for part, codes in parting.codes(BLOCK_ROWS):
            block = keys[part]
            heads, tails = np.divmod(block[codes == TRAIN], nodes)
            links[0, done : done + len(heads)], links[1, done : done + len(heads)] = heads, tails
            done += len(heads)
            count_rows(counts, heads)
            left_out.append(block[codes == LEFT_OUT])
            for code, found in drawn.items():
                found.append(block[codes == code])
            if times is not None:
                kept_times.append(times[part][codes == TRAIN])
            advance(len(block) / len(keys))
        dropped = left_out.length if given else 0
    write_pointers(work.folder, "train", counts)
    pairs = given or [np.stack(np.divmod(np.concatenate(found), nodes)) for found in drawn.values()]
    for name, held_out in zip(("valid", "test"), pairs, strict=True):
        with new_array(work.path(name), "<i8", held_out.shape) as out:
            out[...] = held_out
    return {"strategy": parting.strategy, "dropped": dropped}


def build_messages(work: Work, advance: Advance) -> Facts:
    """Sorts the links in both directions, with a loop at every node: the message graph A + I."""
    links, nodes = mapped(work.path("links")), work.nodes
    entries = 2 * links.shape[1] + nodes

    def fed() -> Iterator[Ints]:
        for part in blocks_of(links.shape[1]):
            heads, tails = links[0, part], links[1, part]
            yield heads * nodes + tails
            yield tails * nodes + heads
            advance(len(heads) / entries)
        for part in blocks_of(nodes):
            yield np.arange(part.start, part.stop) * (nodes + 1)

    def told() -> Iterator[Ints]:
        for block in work.engine.sorted(fed()):
            advance(0.5 * len(block) / entries)
            yield block

    return {"message_entries": write_rows(work.folder, "message", distinct(told()), nodes)}


def build_rows(work: Work, advance: Advance) -> Facts:
    """Writes the rows of training links, and those of all that are known."""
    nodes = work.nodes
    train = _directed_keys(work) if work.request.directed else _without_loops(work)
    if not work.request.directed:
        write_rows(work.folder, "train", train, nodes)
        train = read_keys(work.folder, "train", nodes)
    advance(0.5)
    write_rows(work.folder, "known", merged(train, _left_out(work)), nodes)
    advance(0.5)
    return {}


def copy_features(work: Work, advance: Advance) -> Facts:
    """Copies the features as float32, where there are any."""
    if work.request.features is not None:
        write_features(work.request.features, work.path("features"), work.nodes, advance)
    return {}


STAGES: dict[str, Callable[[Work, Advance], Facts]] = {
    "reading ids": read_ids,
    "sorting links": sort_links,
    "holding links out": hold_out,
    "building the message graph": build_messages,
    "building rows": build_rows,
    "copying features": copy_features,
}


def _given(work: Work, path: Path) -> Ints:
    """Returns the links [2, P] of a file of held-out links, in its order."""
    columns = LinkColumns(work.request.columns.source, work.request.columns.target)
    query = link_sql(open_links(path, columns), work.numbering, directed=True, in_order=True)
    keys = np.concatenate([np.empty(0, dtype=np.int64), *(block[0] for block in work.engine.arrays(query))])
    return np.stack(np.divmod(keys, work.nodes))


def _directed_keys(work: Work) -> Iterator[Ints]:
    links = mapped(work.path("links"))
    for part in blocks_of(links.shape[1]):
        yield links[0, part] * work.nodes + links[1, part]


def _without_loops(work: Work) -> Iterator[Ints]:
    for keys in read_keys(work.folder, "message", work.nodes):
        yield keys[keys % (work.nodes + 1) != 0]


def _number(work: Work, files: list[LinkFile], held_out: list[LinkFile], integers: bool) -> Numbering:
    request, engine = work.request, work.engine
    if request.nodes is not None:
        every = [*files, *held_out]
        return by_table(engine, every, integers, request.nodes, request.node_column, work.folder)
    if request.features is not None:
        rows = len(open_matrix(request.features))
        return by_rows(engine, [*files, *held_out], integers, rows, request.features)
    return by_order(engine, files, held_out, integers, work.folder)


def _part(work: Work, keys: Ints, times: Ints | None, given: list[Ints]) -> Parting:
    how, nodes = work.request.hold_out, work.nodes
    if given:
        ends = np.concatenate(given, axis=1)
        if not work.request.directed:
            ends = np.sort(ends, axis=0)
        return GivenParting(keys, ends[0] * nodes + ends[1], work.request.drop_leaks)
    if how.split == "random" or (how.split == "auto" and times is None):
        return RandomParting(how, len(keys))
    if times is None:
        raise DataError("links without times cannot be split by time; name their --time-column")
    return TimeParting(how, times, work.engine, str(work.request.links[0]))


def _left_out(work: Work) -> Ints:
    """Returns sorted keys, head → tail, of the known links that are not among those to train on."""
    nodes = work.nodes
    pairs = [mapped(work.path(name)) for name in ("valid", "test")]
    keys = np.concatenate([mapped(work.path("left_out")), *(heads * nodes + tails for heads, tails in pairs)])
    if not work.request.directed:
        keys = np.concatenate([keys, keys % nodes * nodes + keys // nodes])
    return np.unique(keys)
