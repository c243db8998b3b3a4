"""What asking a scorer takes, by estimate: what is done by default is bounded, and the same on every machine."""

from headtail.contract import Scorer
from headtail.serving.rankings import SHORTLIST

# A scorer that takes longer than this for a head's shortlist ranks no candidates unless it is asked to.
SHORTLIST_SECONDS = 0.1


def seconds_for(scorer: Scorer, pairs: int) -> float:
    """Returns about how long so many pairs take."""
    return pairs * scorer.pair_microseconds / 1e6


def pairs_within(scorer: Scorer, seconds: float) -> int:
    """Returns about how many pairs are scored in so many seconds."""
    return int(seconds * 1e6 / scorer.pair_microseconds)


def too_dear(scorer: Scorer) -> str | None:
    """Says why a scorer is not to rank the candidates of many heads; None where it may."""
    takes = seconds_for(scorer, SHORTLIST)
    if takes <= SHORTLIST_SECONDS:
        return None
    return f"it takes {scorer.pair_microseconds / 1000:.2g} ms a pair, about {takes:.1f} s for {SHORTLIST} of a head"
