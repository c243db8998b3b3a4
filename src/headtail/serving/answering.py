"""The answers of a trained method: from any of the task's views, all by one plan that is found once."""

from functools import cached_property

from headtail.config import Config
from headtail.contract import Scorer
from headtail.graph.kept import Kept
from headtail.graph.view import GraphView, ServingView
from headtail.memory import keep_freed_memory
from headtail.ranks import current
from headtail.serving.answers import Answers
from headtail.serving.choice import choose
from headtail.serving.described import Described
from headtail.serving.evidence import AnswersFrom, chosen_evidence, view_for
from headtail.serving.plan import AnswerPlan
from headtail.serving.sight import Sight
from headtail.training.task_method import TaskMethod


class Answering:
    """Answers of a method; encodes each view once, when it is asked for.

    Args:
        method: trained.
        config: its settings.
        plan: how it answers, if that was found already.
        kept: what a run kept of the answers that are given by default.
        final: the method as learned from all links, which scores what is answered from all links.
    """

    def __init__(
        self,
        method: TaskMethod,
        config: Config,
        plan: AnswerPlan | None = None,
        kept: Kept | None = None,
        final: TaskMethod | None = None,
    ) -> None:
        self.method, self.config, self._kept, self.final = method, config, kept, final
        # Methods that learn nothing are cheap to ask about all nodes, and are what others are compared with.
        exact = config.evaluation.answers == "exact" or not method.epochs
        self.planned = not exact and method.task.protocol != "val-as-train"
        self._plan = plan
        # By the identity of views, which are kept too; a task has three at most.
        self._answers: dict[int, tuple[GraphView, Answers]] = {}
        self._scorers: dict[int, tuple[GraphView, Scorer]] = {}

    def learned_finally(self, final: TaskMethod) -> None:
        """Takes the method as learned from all links; what was made for these before goes."""
        self.final = final
        self._answers = {key: each for key, each in self._answers.items() if not isinstance(each[0], ServingView)}
        self._scorers = {key: each for key, each in self._scorers.items() if not isinstance(each[0], ServingView)}

    @property
    def plan(self) -> AnswerPlan | None:
        """How candidates are found and ranked, chosen on the validation links; None: all nodes are scored.

        Under val-as-train there are no links left to choose by.
        """
        if self.planned and self._plan is None:
            self._plan = self._chosen()
        return self._plan if self.planned else None

    def asked(self, evidence: AnswersFrom | None = None) -> Answers:
        """Returns the answers from what is asked for (see `chosen_evidence`)."""
        return self.of(view_for(self.method.task, chosen_evidence(self.method.task, evidence)))

    @property
    def views(self) -> list[GraphView]:
        """The views that were encoded."""
        return [view for view, _ in self._scorers.values()]

    def of(self, view: GraphView) -> Answers:
        """Returns the answers from a view of the task."""
        if id(view) not in self._answers:
            sight = Sight.of(view, self._described, self._kept_of(view, "sources"))
            self._answers[id(view)] = view, Answers(view.num_nodes, lambda: self.scorer(view), sight, self.plan)
        return self._answers[id(view)][1]

    def scorer(self, view: GraphView) -> Scorer:
        """Returns the first scorer of a view."""
        if id(view) not in self._scorers:
            keep_freed_memory()
            method = self.final if self.final is not None and isinstance(view, ServingView) else self.method
            self._scorers[id(view)] = view, method.scorer(view, self._kept_of(view, "scorer"))
        return self._scorers[id(view)][1]

    @cached_property
    def _described(self) -> Described | None:
        features = self.method.task.graph.features
        return None if features is None else Described(features)

    def _kept_of(self, view: GraphView, part: str) -> Kept | None:
        """Returns a part of what was kept of the answers from a view."""
        default = self._kept is not None and view is view_for(self.method.task, chosen_evidence(self.method.task))
        return self._kept.part(part) if self._kept is not None and default else None

    def _chosen(self) -> AnswerPlan:
        task, ranks = self.method.task, current()
        scorer = self.scorer(task.train_view)  # encoded by all ranks together
        found = choose(task, scorer, self.config.training.seed, self._described).as_json() if ranks.leads else ""
        return AnswerPlan.from_json(ranks.text_of_first(found).encode(), "the plan of rank 0")
