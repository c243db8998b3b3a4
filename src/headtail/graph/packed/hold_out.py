"""Which links of a packed graph are held out: at random, the newest, or given ones; so few that they can be ranked."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headtail.config import SplitConfig
from headtail.errors import ConfigError, DataError
from headtail.graph.packed.arrays import blocks_of
from headtail.graph.packed.engine import Engine, Ints
from headtail.graph.split import cut_in_time

# What becomes of a link. Left out are links that are neither learned from nor ranked, and no negatives either.
TRAIN, VALID, TEST, LEFT_OUT = range(4)
Codes = NDArray[np.uint8]
STRATEGIES = ("auto", "random", "time")


@dataclass(frozen=True)
class HoldOut:
    """How links are held out where no held-out links are given: shares of all links, but no more than `most` each."""

    split: str = "auto"
    valid_share: float = 0.05
    test_share: float = 0.1
    most: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in STRATEGIES:
            raise ConfigError(
                f"packing holds links out by {', '.join(STRATEGIES)}, not {self.split!r}; or give --valid and --test"
            )
        if not (0 < self.valid_share < 0.5 and 0 < self.test_share < 0.5 and self.most >= 1 and self.seed >= 0):
            raise ConfigError("shares of held-out links are above 0 and below 0.5, and one link at least is held out")

    def size(self, share: float, links: int) -> int:
        return max(1, min(self.most, round(share * links)))


class Parting:
    """Says block by block what becomes of sorted links, as often as it is asked."""

    strategy: str

    def codes(self, size: int) -> Iterator[tuple[slice, Codes]]:
        """Yields slices that cover all links, each with a code per link."""
        raise NotImplementedError


class RandomParting(Parting):
    """Held-out links are drawn uniformly."""

    strategy = "random"

    def __init__(self, how: HoldOut, count: int) -> None:
        if count < 3:
            raise DataError(f"there are {count} links; train, validation and test need one each at least")
        self._count = count
        test, valid = how.size(how.test_share, count), how.size(how.valid_share, count)
        drawn = np.random.default_rng(how.seed).choice(count, test + valid, replace=False)
        self._places = {TEST: np.sort(drawn[:test]), VALID: np.sort(drawn[test:])}

    def codes(self, size: int) -> Iterator[tuple[slice, Codes]]:
        for part in blocks_of(self._count, size):
            codes = np.zeros(part.stop - part.start, dtype=np.uint8)
            for code, places in self._places.items():
                first, last = np.searchsorted(places, (part.start, part.stop))
                codes[places[first:last] - part.start] = code
            yield part, codes


class TimeParting(Parting):
    """The newest links are the test, the next newest the validation; where these are too many, some are drawn."""

    strategy = "time"

    def __init__(self, how: HoldOut, times: Ints, engine: Engine, source: str) -> None:
        moments, counts = _moments(engine.sorted(times[part] for part in blocks_of(len(times))))
        shares = SplitConfig(valid_share=how.valid_share, test_share=how.test_share)
        last_train, last_valid = cut_in_time(torch.from_numpy(moments), torch.from_numpy(counts), shares, source)
        self._times = times
        self._since = {VALID: moments[last_train], TEST: moments[last_valid]}
        sizes = {VALID: int(counts[last_train + 1 : last_valid + 1].sum()), TEST: int(counts[last_valid + 1 :].sum())}
        rng = np.random.default_rng(how.seed)
        self._drawn = {
            code: np.sort(rng.choice(size, how.most, replace=False)) if size > how.most else None
            for code, size in sizes.items()
        }

    def codes(self, size: int) -> Iterator[tuple[slice, Codes]]:
        seen = {VALID: 0, TEST: 0}
        for part in blocks_of(len(self._times), size):
            times = self._times[part]
            codes = np.zeros(len(times), dtype=np.uint8)
            codes[times > self._since[VALID]] = VALID
            codes[times > self._since[TEST]] = TEST
            for code, drawn in self._drawn.items():
                where = np.flatnonzero(codes == code)
                if drawn is not None:
                    first, last = np.searchsorted(drawn, (seen[code], seen[code] + len(where)))
                    codes[np.delete(where, drawn[first:last] - seen[code])] = LEFT_OUT
                seen[code] += len(where)
            yield part, codes


class GivenParting(Parting):
    """Held-out links are given: links to train on that repeat one are left out, where that is allowed."""

    strategy = "given"

    def __init__(self, keys: Ints, held_out: Ints, drop_leaks: bool) -> None:
        self._keys, self._held_out = keys, np.unique(held_out)
        places = np.searchsorted(keys, self._held_out)
        there = np.take(keys, np.minimum(places, len(keys) - 1)) == self._held_out
        self._places: Ints = places[there]
        if len(self._places) and not drop_leaks:
            raise DataError(
                f"the given split leaks: {len(self._places):,} links to train on are also held out; remove them, or "
                "pass --drop-leaks to do so."
            )

    def codes(self, size: int) -> Iterator[tuple[slice, Codes]]:
        for part in blocks_of(len(self._keys), size):
            codes = np.zeros(part.stop - part.start, dtype=np.uint8)
            first, last = np.searchsorted(self._places, (part.start, part.stop))
            codes[self._places[first:last] - part.start] = LEFT_OUT
            yield part, codes


def _moments(times: Iterator[Ints]) -> tuple[Ints, Ints]:
    """Returns the distinct ones of sorted times, and how often each occurs."""
    found: list[Ints] = []
    sizes: list[Ints] = []
    for block in times:
        moments, counts = np.unique(block, return_counts=True)
        if found and len(moments) and found[-1][-1] == moments[0]:  # a moment that goes on in the next block
            sizes[-1][-1] += counts[0]
            moments, counts = moments[1:], counts[1:]
        if len(moments):
            found.append(moments)
            sizes.append(counts.astype(np.int64))
    return np.concatenate(found), np.concatenate(sizes)
