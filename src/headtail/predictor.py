"""LinkPredictor, the front door: fit, evaluate, predict, recommend, save, load."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from headtail.card import model_card
from headtail.config import Config, make_config
from headtail.contract import Scorer
from headtail.errors import HeadtailError
from headtail.evaluation.calibration import Calibration, calibrate, check_prior
from headtail.evaluation.metrics import Metric
from headtail.evaluation.parts import Validation
from headtail.evaluation.reliability import Reliability, measure_reliability
from headtail.evaluation.scoring import held_out_scores, scores_of
from headtail.files import write_text
from headtail.final import check_final, learn_final, write_final
from headtail.graph.given_pairs import GivenPairs, heads_and_tails
from headtail.graph.graph import Graph
from headtail.graph.names import Names
from headtail.graph.store import fingerprint
from headtail.graph.task import LinkTask, make_task
from headtail.judged import judged
from headtail.kept_answers import forget_answers, keep_answers
from headtail.methods import check_names, make_method
from headtail.presets import DEFAULT_PRESET
from headtail.ranks import current
from headtail.run_files import ANSWERS_FILE, CARD_FILE, check_folder
from headtail.runs import begin_run, new_run, watching, write_history
from headtail.serving.answering import Answering
from headtail.serving.evidence import AnswersFrom, chosen_evidence, view_for
from headtail.serving.questions import LeaveOut, Question, answer
from headtail.stored_run import read_run
from headtail.training.checkpoint import save_model
from headtail.training.observer import Observer, Record
from headtail.training.task_method import TaskMethod


class LinkPredictor:
    """Learns which links a graph is missing.

    Args:
        preset: "strong" (reads evidence about pairs), "fast" (a small plain AML) or "paper" (the published procedure).
        config: a complete configuration, or a YAML file of settings that override the preset.
        **settings: single settings by name, for example epochs=25, encoder="gat", seed=1.

    Example:
        >>> model = LinkPredictor().fit(load("debian"))
        >>> model.recommend("firefox-esr", k=10)
    """

    def __init__(
        self, preset: str = DEFAULT_PRESET, config: Config | str | Path | None = None, **settings: object
    ) -> None:
        if isinstance(config, Config):
            if settings:
                raise HeadtailError("give either a complete Config or single settings, not both.")
            self.config = config
        else:
            self.config = make_config(preset, config, settings)
        check_names(self.config)
        self.history: list[Record] = []
        self.best_epoch = 0
        self.finished = False
        self.result: Record | None = None
        self._answering: Answering | None = None
        self._calibration: Calibration | None = None

    # ---- learning ----

    def fit(
        self,
        graph: Graph,
        out: str | Path | None = None,
        resume: bool = False,
        overwrite: bool = False,
        observer: Observer | None = None,
        say: Callable[[str], None] | None = None,
        heads_sampled: int | None = None,
    ) -> "LinkPredictor":
        """Trains on a graph.

        Args:
            graph: from `headtail.load`.
            out: run folder; a checkpoint is written there after every epoch and the model at the end.
            resume: go on from the checkpoint in `out`.
            overwrite: replace another run in `out`.
            observer: watches training; default is a progress bar.
            say: receives what was found about the data, one sentence at a time.
            heads_sampled: as in `evaluate`, for the test where `out` is given.

        Returns:
            This predictor, with the weights of the best validation epoch, and `finished` False where Ctrl-C ended
            training early; where `out` is given, `result` is the test's.

        Raises:
            KeyboardInterrupt: Ctrl-C came before the first epoch ended, so there is nothing to return.
        """
        folder, ranks = None if out is None else Path(out), current()
        if resume or ranks.leads:  # others would find what the first has just begun
            resume = check_folder(folder, resume, overwrite)
        check_final(graph, self.config)
        task = make_task(graph, self.config)
        Metric.parse(task.metric)
        method = make_method(task, self.config)
        if ranks.leads and say is not None:
            for found in (graph.cleaning, task.leaks, *method.notes):
                say(f"{found}.")
        checkpoints = begin_run(folder, self.config, task, resume)
        watch = watching(observer, folder)
        # Links that are trained on are no judge of training: the last epoch is then the one to keep.
        judge = None if self.config.split.protocol == "val-as-train" else Validation(task)
        progress = method.fit(judge, watch, checkpoints, resume)
        if progress.epoch == 0 and method.epochs > 0:
            raise KeyboardInterrupt("training was interrupted before the first epoch ended; nothing was learned.")
        self.history, self.best_epoch = progress.history, progress.best_epoch
        self.finished = progress.epoch == method.epochs
        self._answering, self._calibration = Answering(method, self.config), None
        if folder is not None:
            self._write_model(folder, heads_sampled)
        if self.finished:
            learn_final(self._answering, self.best_epoch, folder, watching(observer, None), say)
        if folder is not None:
            write_final(folder, self._answering, self.best_epoch)
            keep_answers(folder, self._answering)
        return self

    # ---- answers ----

    def evaluate(self, part: str = "test", heads_sampled: int | None = None) -> Record:
        """Ranks held-out links and returns metrics, cost and provenance.

        Args:
            part: "test" or "valid".
            heads_sampled: of so many heads at most, also say what lists are worth, as `all_nodes`: links ranked
                among all nodes; and how answers are made, as `answers`. 0 leaves both out. By default 1,500; fewer
                where every head has all nodes scored at a price, and `fewer_heads` then says so.
        """
        return judged(self.answering, part, heads_sampled, self.history, self.best_epoch)

    def reliability(self) -> Reliability:
        """Judges on the test links the probabilities that were calibrated on the validation links."""
        calibration = self._calibrated()
        links, negatives = held_out_scores(self._scorer("training"), self.task.split.test, self.task.metric)
        return measure_reliability(calibration.probabilities(links), calibration.probabilities(negatives))

    def predict(
        self,
        pairs: GivenPairs,
        probability: bool = False,
        prior: float = 0.5,
        evidence: AnswersFrom | None = None,
    ) -> pd.DataFrame:
        """Scores pairs of node names; returns columns head, tail, score, a higher score being a likelier link.

        Args:
            pairs: tuples; a table whose first two columns are heads and tails; or an array or tensor, [2, P] with heads
                above tails, or [P, 2] with a pair in each row.
            probability: add a column of that name, calibrated on the validation links as scored from training links;
                scores from all links are read by the same calibration.
            prior: the share of true links that you expect among such pairs; probabilities follow it by Bayes' rule.
            evidence: links to score from, as in `recommend`; a pair that is one of them is no evidence for itself.
        """
        check_prior(prior)
        heads, tails = heads_and_tails(pairs)
        names = self.task.graph.names
        head_nodes, tail_nodes = names.find(heads, "the heads"), names.find(tails, "the tails")
        calibration = self._calibrated() if probability else None
        scores = scores_of(self._scorer(evidence), head_nodes, tail_nodes)
        table = pd.DataFrame({"head": names.of(head_nodes), "tail": names.of(tail_nodes), "score": scores.numpy()})
        return table if calibration is None else table.assign(probability=calibration.probabilities(scores, prior))

    def recommend(
        self,
        heads: Names | None = None,
        k: int = 10,
        leave_out: LeaveOut = "known",
        evidence: AnswersFrom | None = None,
        *,
        among: Names | None = None,
        exclude: Names | None = None,
        exact: bool = False,
        probability: bool = False,
        prior: float = 0.5,
    ) -> pd.DataFrame:
        """Returns the k likeliest new links of each head as columns head, tail, score, rank.

        Candidates are found by cheap rules and ranked by what was best on the validation links (the model card says by
        what); scores are those of that ranking, and compare within one head only.

        Args:
            heads: one name, several in a list, array, tensor or column, or None for all nodes.
            k: tails per head; fewer only where fewer are left.
            leave_out: links not to answer with: all that the data has ("known"), only those learned from
                ("training"), or none ("nothing").
            evidence: links to answer from: all that the data has ("all", the default), held-out ones too, since
                nothing is judged any more; or only those that the test is scored from ("training"), for who wants to
                know which held-out links are found. The default is "training" where the graph is packed.
            among: the only tails to answer with.
            exclude: tails not to answer with.
            exact: rank all nodes by the method's own score, the one of `predict`.
            probability: add a column of that name, as `predict` does.
            prior: as in `predict`.
        """
        empty = pd.DataFrame(columns=["head", "tail", "score", "rank"])
        question = Question(k, leave_out, evidence, among, exclude, exact)
        frames = list(self.recommend_blocks(heads, question, prior=prior if probability else None))
        return pd.concat(frames, ignore_index=True) if frames else empty

    def recommend_blocks(
        self,
        heads: Names | None = None,
        question: Question = Question(),  # noqa: B008, it is immutable
        progress: Callable[[int], None] | None = None,
        prior: float | None = None,
    ) -> Iterator[pd.DataFrame]:
        """Like `recommend`, block by block, so that answers for every node need little memory.

        Where a prior is given, there is a column of probabilities.
        """
        names = self.task.graph.names
        nodes = torch.arange(names.num_nodes) if heads is None else names.find(heads, "the heads")
        likely = None
        if prior is not None:
            check_prior(prior)
            likely = partial(self._calibrated().probabilities, prior=prior)
        return answer(self.answering, nodes, question, progress, likely)

    # ---- runs on disk ----

    def save(self, folder: str | Path, overwrite: bool = False, heads_sampled: int | None = None) -> None:
        """Writes a run folder: configuration, model, graph, node names, metrics and a model card (see `fit`)."""
        folder = Path(folder)
        check_folder(folder, resume=False, overwrite=overwrite)
        with new_run(folder, self.config, self.task) as fresh:
            self._write_model(fresh, heads_sampled)
            write_final(fresh, self.answering, self.best_epoch)
            keep_answers(fresh, self.answering)

    @staticmethod
    def load(folder: str | Path, device: str = "auto") -> "LinkPredictor":
        """Reads a run folder.

        Raises:
            RunError: it is missing, unfinished, damaged, or its parts do not belong together.
        """
        stored = read_run(Path(folder), device)
        predictor = LinkPredictor(config=stored.config)
        predictor._answering = Answering(stored.method, stored.config, stored.plan, stored.kept, stored.final)
        predictor.history, predictor.best_epoch = stored.history, stored.best_epoch
        predictor.finished = len(predictor.history) == stored.method.epochs
        return predictor

    @property
    def task(self) -> LinkTask:
        """The task this predictor was trained on."""
        return self.method.task

    @property
    def method(self) -> TaskMethod:
        """The trained method."""
        return self.answering.method

    @property
    def answering(self) -> Answering:
        """What answers by the trained method.

        Raises:
            HeadtailError: nothing was trained yet.
        """
        if self._answering is None:
            raise HeadtailError("this predictor is not trained yet; call fit(graph) or LinkPredictor.load(folder).")
        return self._answering

    def _scorer(self, evidence: AnswersFrom | None) -> Scorer:
        return self.answering.scorer(view_for(self.task, chosen_evidence(self.task, evidence)))

    def _calibrated(self) -> Calibration:
        """Learns probabilities from the validation links once and keeps the result."""
        if self._calibration is None:
            self._calibration = calibrate(self.answering.scorer(self.task.train_view), self.task)
        return self._calibration

    def _write_model(self, folder: Path, heads_sampled: int | None) -> None:
        method, leads = self.method, current().leads
        if leads:
            forget_answers(folder)  # of the weights before
            save_model(folder, method.weights(), fingerprint(method.task), self.best_epoch)
        plan = self.answering.plan
        if leads and plan is not None:
            write_text(folder / ANSWERS_FILE, plan.as_json())
        result = self.result = self.evaluate(heads_sampled=heads_sampled)
        if leads:
            write_text(folder / CARD_FILE, model_card(method, self.config, result, self.finished))
            write_history(folder, self.history, result)
