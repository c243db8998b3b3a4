"""What answers are made by: sources with budgets, trees, and how both and the first scorer are put together.

A plan is plain data, found once after training (`choice`), kept with the run, and turned into a ranking for any view.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field, NonNegativeInt, TypeAdapter, ValidationError

from headtail.contract import Scorer
from headtail.errors import RunError
from headtail.serving import sources  # noqa: F401, registers those that come with headtail
from headtail.serving.candidates import SOURCES, Candidates
from headtail.serving.network import Network
from headtail.serving.rankings import Blend, ByNetwork, ByScorer, BySource, ByTrees, Ranking
from headtail.serving.sight import Sight
from headtail.serving.trees_text import plain_trees

FIRST = "first scorer"
# What is compared of lists on validation links.
FIGURES = ("recall@10", "recall@50", "mrr@50")
_STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True)
class Trees:
    """Trees of a second stage: what `plain_trees` makes of them, and the columns that they read."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    columns: list[str]
    text: str


@dataclass(frozen=True)
class Choice:
    """One ranking, or a blend of two: names of trees, networks or sources, or the first scorer.

    Attributes:
        one, other: the names; the first scorer looks at the best candidates of `one`.
        share: what `one` counts for in a blend.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    one: str
    other: str | None = None
    share: Annotated[float, Field(ge=0, le=1)] = 1.0

    def __str__(self) -> str:
        if self.other is None:
            return self.one
        return f"{round(100 * self.share)} % {self.one}, {round(100 * (1 - self.share))} % {self.other}"


@dataclass(frozen=True)
class Judged:
    """A choice and what it is worth on validation links, ranked among all nodes."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    choice: Choice
    figures: dict[str, float]


@dataclass(frozen=True)
class AnswerPlan:
    """How the candidates of a graph are found and ranked.

    Attributes:
        budgets: how many tails each source proposes, by name.
        trees, networks: by name, those that the choice needs.
        choice: how candidates are ranked.
        shortlist: what the candidates of the first scorer are chosen by.
        table: everything that was compared.
        left_out: what was not compared, and why.
        held: of the tails that the first scorer ranks among the ten best of all nodes, the share that are candidates,
            for heads of few, some and many links; empty where that was not measured.
        per_head: how many candidates a head has, the mean over some; 0 where not measured.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    budgets: dict[str, NonNegativeInt]
    trees: dict[str, Trees]
    choice: Choice
    shortlist: str
    networks: dict[str, Network] = field(default_factory=dict)
    table: list[Judged] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    held: dict[str, float] = field(default_factory=dict)
    per_head: float = 0.0

    def as_json(self) -> str:
        """Returns what `from_json` reads."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(content: bytes, where: str) -> "AnswerPlan":
        """Reads a plan that may come from a stranger.

        Raises:
            RunError: it is none, or names sources that are not there.
        """
        try:
            plan = _PLANS.validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise RunError(f"{where} is damaged ({place}: {first['msg'].lower()}); train again.") from error
        if any(name not in each.figures for each in plan.table for name in FIGURES):
            raise RunError(f"{where} is damaged (a comparison lacks figures); train again.")
        names = {plan.shortlist, plan.choice.one, plan.choice.other or plan.shortlist} - {FIRST}
        if not plan.budgets or plan.shortlist == FIRST or not names <= {*plan.trees, *plan.networks, *plan.budgets}:
            raise RunError(f"{where} is damaged (it ranks by what it does not hold); train again.")
        missing = [name for name in plan.budgets if name not in SOURCES]
        if missing:
            raise RunError(f"{where} names the source {missing[0]!r}, which this version does not have; train again.")
        try:
            for network in plan.networks.values():
                network.check()
            trees = {
                name: replace(each, text=plain_trees(each.text, len(each.columns))) for name, each in plan.trees.items()
            }
        except ValueError as error:
            raise RunError(f"{where} is damaged ({error}); train again.") from error
        return replace(plan, trees=trees)

    def candidates(self, sight: Sight) -> Candidates:
        """Returns the sources of a view.

        Raises:
            RunError: there is no such source for it.
        """
        for name in self.budgets:
            missing = SOURCES[name].unavailable(sight)
            if missing is not None:
                raise RunError(
                    f"answers ask the source {name!r}, but {missing}: they are for another graph; train again."
                )
        return Candidates([SOURCES[name](sight) for name in self.budgets], self.budgets)

    @property
    def asks_first(self) -> bool:
        """Whether the first scorer takes part."""
        return FIRST in (self.choice.one, self.choice.other)

    def ranking(self, sight: Sight, first: Callable[[], Scorer]) -> Ranking:
        """Returns how candidates are ranked; `first` makes the first scorer, if it takes part."""
        made: dict[str, Ranking] = {}

        def named(name: str) -> Ranking:
            if name not in made:
                made[name] = self._ranking(name, sight, first, named)
            return made[name]

        choice = self.choice
        return (
            named(choice.one) if choice.other is None else Blend(named(choice.one), named(choice.other), choice.share)
        )

    def _ranking(
        self, name: str, sight: Sight, first: Callable[[], Scorer], named: Callable[[str], Ranking]
    ) -> Ranking:
        if name == FIRST:
            return ByScorer(first(), named(self.shortlist))
        if name in self.trees:
            trees = self.trees[name]
            return ByTrees(tuple(trees.columns), sight, trees.text)
        if name in self.networks:
            return ByNetwork(tuple(self.networks[name].columns), sight, self.networks[name])
        return BySource(name)


_PLANS: TypeAdapter[AnswerPlan] = TypeAdapter(AnswerPlan)
