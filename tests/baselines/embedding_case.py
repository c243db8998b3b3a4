"""The shared case of methods that learn one embedding per node; a subclass says which one."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from method_case import MethodCase, random_pairs, random_view
from tiny_methods import ForAnyView, tiny_method, tiny_task
from torch import Tensor

from headtail import LinkPredictor, load
from headtail.config import make_config
from headtail.contract import Method
from headtail.datasets.raw import RawGraph
from headtail.datasets.synthetic import planted
from headtail.graph.graph import build_graph
from headtail.methods import make_method
from headtail.training.learner import Learner
from headtail.training.observer import Observer
from tiny_runs import Stop, history, predictor, same_weights, small_graph, timeless, trained, weights

NEGATIVES = 50
# The mean of 1/rank where every rank among the negatives is as likely.
CHANCE = sum(1 / rank for rank in range(1, NEGATIVES + 2)) / (NEGATIVES + 1)


def one_way(nodes: int = 300, groups: int = 10, links: int = 2400) -> RawGraph:
    """Links lead from each group to the next one in a ring, never within a group nor back; there are no features."""
    random = np.random.default_rng(0)
    group = random.permutation(np.arange(nodes) % groups)
    allowed = np.argwhere((group[:, None] + 1) % groups == group[None, :])
    chosen = allowed[random.choice(len(allowed), links, replace=False)].T
    return RawGraph("one way", nodes, chosen.astype(np.int64), True)


class EmbeddingCase(MethodCase):
    """What holds for matrix factorisation and Node2vec alike."""

    name: str
    tolerance = 1e-5
    # Settings under which the small planted graphs are learned within a second or two.
    learn: ClassVar[dict[str, Any]]

    def learned(self, raw: RawGraph, **settings: Any) -> LinkPredictor:
        chosen = {"method": self.name, "eval_negatives": NEGATIVES, "device": "cpu", "structure": 1} | self.learn
        return LinkPredictor(**(chosen | settings)).fit(build_graph(raw), observer=Observer())

    @pytest.fixture
    def method(self) -> Method:
        return ForAnyView(self.name)

    def test_only_directed_graphs_tell_head_from_tail(self) -> None:
        heads, tails = random_pairs()
        apart = heads != tails
        heads, tails = heads[apart], tails[apart]
        for directed in (True, False):
            scorer = tiny_method(self.name, directed).scorer(random_view(directed))
            gap = (scorer.score_pairs(heads, tails) - scorer.score_pairs(tails, heads)).abs()
            assert bool((gap < 1e-5).all()) != directed

    # ---- learning ----

    def value(self, method: Learner[Any], batch: Any, weight: str) -> Tensor:
        """The loss that the weight of that name is to make smaller."""
        return method.loss(batch).value

    def test_gradients_agree_with_finite_differences(self) -> None:
        # not `focused`, whose weights have no gradient and yet move with the scores
        settings = {"method": self.name, "hidden": 4, "device": "cpu", "eval_negatives": 5, "objective": "auto"}
        config = make_config(settings=settings)
        method = make_method(tiny_task(config, True), config)
        assert isinstance(method, Learner)
        method.model.double().train()
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        method.loss(batch).value.backward()
        step = 1e-6
        for name, weight in method.model.named_parameters():
            assert weight.grad is not None, name
            place = int(weight.grad.abs().argmax())
            with torch.no_grad():
                values = []
                for sign in (1, -1):
                    weight.view(-1)[place] += sign * step
                    values.append(float(self.value(method, batch, name)))
                    weight.view(-1)[place] -= sign * step
            found = (values[0] - values[1]) / (2 * step)
            assert found == pytest.approx(float(weight.grad.view(-1)[place]), rel=1e-4, abs=1e-9), name

    @pytest.mark.slow
    @pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
    def test_planted_communities_are_found(self, directed: bool) -> None:
        model = self.learned(planted(300, 10, degree=10.0, noise=0.05, seed=0, directed=directed, dim=1))
        assert model.evaluate()["mrr"] > 4 * CHANCE
        assert model.history[-1]["loss"] < 0.8 * model.history[0]["loss"]

    @pytest.mark.slow
    def test_the_direction_of_links_is_learned(self) -> None:
        model = self.learned(one_way())
        heads, tails = model.task.split.test.positives
        scorer = model._scorer("training")
        forward, back = scorer.score_pairs(heads, tails), scorer.score_pairs(tails, heads)
        assert float((forward > back).float().mean()) > 0.9

    @pytest.mark.slow
    def test_nothing_is_found_in_random_links(self) -> None:
        links = np.random.default_rng(0).integers(300, size=(2, 2400))
        model = self.learned(RawGraph("noise", 300, links[:, links[0] != links[1]], True))
        assert model.evaluate()["mrr"] < 1.6 * CHANCE

    # ---- runs ----

    def test_the_same_seed_gives_the_same_run(self) -> None:
        torch.manual_seed(1)
        one = trained(method=self.name, epochs=2, dropout=0.2)
        torch.manual_seed(2)
        other = trained(method=self.name, epochs=2, dropout=0.2)
        assert history(one) == history(other)
        assert same_weights(weights(one), weights(other))
        assert history(one) != history(trained(method=self.name, epochs=2, dropout=0.2, seed=1))

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [(1, None), (3, 2)])
    def test_resume_equals_no_interruption(self, stop: tuple[int, int | None], tmp_path: Path) -> None:
        graph, settings = small_graph(), {"method": self.name, "dropout": 0.3}
        whole = predictor(**settings).fit(graph, tmp_path / "whole", observer=Observer())
        assert not predictor(**settings).fit(graph, tmp_path / "run", observer=Stop(*stop)).finished
        resumed = predictor(**settings).fit(graph, tmp_path / "run", resume=True, observer=Observer())
        assert resumed.finished
        assert history(resumed) == history(whole)
        assert same_weights(weights(resumed), weights(whole))
        assert timeless(resumed.evaluate()) == timeless(whole.evaluate())

    def test_a_stored_run_scores_the_same(self, tmp_path: Path) -> None:
        model = trained(method=self.name, epochs=1)
        model.save(tmp_path / "run")
        again = LinkPredictor.load(tmp_path / "run", device="cpu")
        pairs = [("p00", "p01"), ("p17", "p42"), ("p59", "p03")]
        assert torch.equal(self.scores(again, pairs), self.scores(model, pairs))
        assert again.recommend("p00", k=3).equals(model.recommend("p00", k=3))

    @staticmethod
    def scores(model: LinkPredictor, pairs: list[tuple[str, str]]) -> Tensor:
        return torch.tensor(model.predict(pairs)["score"].to_numpy())

    @pytest.mark.gpu
    def test_training_on_a_gpu_follows_training_on_the_cpu(self) -> None:
        there, here = (trained(method=self.name, epochs=2, device=device) for device in ("cuda", "cpu"))
        assert there.history[-1]["loss"] == pytest.approx(here.history[-1]["loss"], rel=0.5)
        again = trained(method=self.name, epochs=2, device="cuda")
        assert same_weights(weights(again), weights(there))

    # ---- real links ----

    @pytest.mark.shared
    @pytest.mark.slow
    def test_citations_are_found(self, shared_data: Path) -> None:
        graph = load(shared_data / "cit-hepph.npz")
        # Two of the ten epochs of the defaults, so that it takes half a minute; by chance the MRR is 0.021.
        model = LinkPredictor(method=self.name, structure=1, epochs=2).fit(graph, observer=Observer())
        assert model.evaluate()["mrr"] > 0.1
