"""The shared case of methods that look at the subgraph around a pair; a subclass says which one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from method_case import NODES, MethodCase, random_pairs, random_view
from tiny_methods import tiny_task
from torch import Tensor, nn

from headtail import LinkPredictor
from headtail.baselines import local
from headtail.baselines.local import LocalBatch, LocalMethod, make_extractor, oriented
from headtail.config import make_config
from headtail.contract import Method
from headtail.graph.view import GraphView
from headtail.methods import make_method
from headtail.training.counters import Counters
from headtail.training.observer import Observer
from tiny_runs import Stop, history, predictor, same_weights, small_graph, trained, weights


class LocalCase(MethodCase):
    """What holds for SEAL and DE-GNN alike."""

    name: str
    tolerance = 2e-5

    def make(self, directed: bool = True, **settings: Any) -> LocalMethod:
        chosen = {"method": self.name, "structure": 0, "hidden": 8, "device": "cpu", "eval_negatives": 5} | settings
        config = make_config(settings=chosen)
        method = make_method(tiny_task(config, directed), config)
        assert isinstance(method, LocalMethod)
        nn.init.normal_(method.model.features.weight, generator=torch.Generator().manual_seed(4))  # zero until trained
        return method

    @pytest.fixture(params=[1, "all"], ids=["capped", "whole"])
    def method(self, request: pytest.FixtureRequest) -> Method:
        return self.make(nodes_per_hop=request.param, hops=2)

    # ---- scoring ----

    def test_the_link_of_a_pair_leaves_no_trace_in_its_own_score(self, view: GraphView) -> None:
        scorer = self.make(view.directed, nodes_per_hop="all", hops=2).scorer
        for number in range(0, view.links.shape[1], 20):
            link = view.links[:, number]
            kept = (view.links != link[:, None]).any(dim=0) & (view.links != link.flip(0)[:, None]).any(dim=0)
            without = GraphView(view.num_nodes, view.directed, view.links[:, kept])
            self.close(scorer(view).score_pairs(*link.view(2, 1)), scorer(without).score_pairs(*link.view(2, 1)))

    @pytest.mark.slow
    def test_chunks_do_not_show(self, method: Method, view: GraphView, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = method.scorer(view).score_pairs(*random_pairs())
        monkeypatch.setattr(local, "WORK_PER_CHUNK", {"cpu": 40})
        self.close(method.scorer(view).score_pairs(*random_pairs()), whole)

    def test_only_directed_graphs_tell_head_from_tail(self) -> None:
        heads, tails = random_pairs()
        view = random_view(directed=True)
        scorer = self.make(directed=True).scorer(view)
        assert not torch.allclose(scorer.score_pairs(heads, tails), scorer.score_pairs(tails, heads), atol=1e-4)
        scorer = self.make(directed=False).scorer(random_view(directed=False))
        assert torch.equal(scorer.score_pairs(heads, tails), scorer.score_pairs(tails, heads))

    # ---- learning ----

    @pytest.mark.slow
    def test_gradients_reach_every_weight_and_agree_with_finite_differences(self) -> None:
        method = self.make(dropout=0.0, objective="cross_entropy")
        method.model.double()
        method.__dict__["_features"] = method.task.features.double()
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        method.loss(batch).value.backward()
        for name, weight in method.model.named_parameters():
            assert weight.grad is not None, name
            place = int(weight.grad.abs().argmax())
            slope = float(weight.grad.view(-1)[place])
            assert slope != 0, name
            # Sorting and ReLU have corners, which a large step meets more often; a small one is rounded more.
            found = [self.difference(method, batch, weight, place, step) for step in (1e-5, 1e-6, 1e-7)]
            assert any(value == pytest.approx(slope, rel=5e-3) for value in found), name

    @staticmethod
    @torch.no_grad()
    def difference(method: LocalMethod, batch: LocalBatch, weight: Tensor, place: int, step: float) -> float:
        """Returns the slope of the loss along one number of a weight."""
        values = []
        for sign in (1, -1):
            weight.view(-1)[place] += sign * step
            values.append(float(method.loss(batch).value))
            weight.view(-1)[place] -= sign * step
        return (values[0] - values[1]) / (2 * step)

    @pytest.mark.slow
    @pytest.mark.parametrize("batches", ["rows", "edges"])
    @pytest.mark.parametrize("directed", [True, False])
    def test_the_loss_falls(self, batches: str, directed: bool) -> None:
        model = trained(
            small_graph(directed),
            method=self.name,
            batches=batches,
            epochs=6,
            learning_rate=0.02,
            evaluate_every=6,
            hidden=32,
        )
        first, last = model.history[0]["loss"], model.history[-1]["loss"]
        assert last < 0.85 * first

    @pytest.mark.parametrize("batches", ["rows", "edges"])
    def test_an_epoch_draws_as_many_links_as_it_may(self, batches: str) -> None:
        method = self.make(batches=batches, links_per_epoch=30, links_per_batch=7)
        source = method.batches()
        drawn = []
        for seed in range(2):
            positives = list(source.epoch(torch.Generator().manual_seed(seed)))
            assert len(positives) <= len(source) == 5
            assert sum(batch.num_positives for batch in positives) == 30
            ends = [batch.subgraphs.nodes[batch.subgraphs.ends[:, : batch.num_positives]] for batch in positives]
            drawn.append(torch.cat(ends, dim=1))
            assert bool(source.supervision.contains(*drawn[-1]).all())
            assert torch.unique(drawn[-1], dim=1).shape[1] == 30
        assert not torch.equal(drawn[0], drawn[1])
        if batches == "rows":  # whole rows, but the one that was cut
            heads, counts = drawn[0][0].unique(return_counts=True)
            assert int((counts < source.supervision.degrees[heads]).sum()) <= 1

    def test_work_is_counted_node_by_node(self) -> None:
        method = self.make(nodes_per_hop="all", negatives_per_positive=2)
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        counters = Counters()
        method.count(batch, counters)
        pairs = batch.subgraphs.nodes[batch.subgraphs.ends]
        extractor = make_extractor(method.task.train_view, method.config.subgraphs, seed=9)
        sizes = extractor.extract(oriented(*pairs, directed=True)).sizes
        assert counters.gnn_node_encodings == int(sizes.sum()) * method.model.convolutions
        assert counters.pairs_scored == pairs.shape[1] == 3 * batch.num_positives

    def test_both_ways_to_project_features_are_the_same(self) -> None:
        method = self.make()
        batch = next(iter(method.batches().epoch(torch.Generator().manual_seed(0))))
        method.model.eval()
        features = method.task.features
        assert batch.subgraphs.nodes.numel() > NODES
        unused = torch.cat([features, features.new_zeros(batch.subgraphs.nodes.numel(), features.shape[1])])
        self.close(method.model.score(batch.subgraphs, features), method.model.score(batch.subgraphs, unused))

    # ---- runs ----

    def test_the_same_seed_gives_the_same_run(self) -> None:
        one, other = (trained(method=self.name, epochs=2, dropout=0.2, nodes_per_hop=3) for _ in range(2))
        assert history(one) == history(other)
        assert same_weights(weights(one), weights(other))
        another = trained(method=self.name, epochs=2, dropout=0.2, nodes_per_hop=3, seed=1)
        assert history(one) != history(another)

    def test_resume_equals_no_interruption(self, tmp_path: Path) -> None:
        settings: dict[str, Any] = {"method": self.name, "dropout": 0.3, "nodes_per_hop": 3, "links_per_epoch": 150}
        graph = small_graph()
        whole = predictor(**settings).fit(graph, tmp_path / "whole", observer=Observer())
        predictor(**settings).fit(graph, tmp_path / "run", observer=Stop(3, 1))
        resumed = predictor(**settings).fit(graph, tmp_path / "run", resume=True, observer=Observer())
        assert history(resumed) == history(whole)
        assert same_weights(weights(resumed), weights(whole))

    def test_a_stored_run_scores_the_same(self, tmp_path: Path) -> None:
        model = trained(method=self.name, epochs=1)
        model.save(tmp_path / "run")
        again = LinkPredictor.load(tmp_path / "run", device="cpu")
        pairs = [("p00", "p01"), ("p17", "p42"), ("p59", "p03")]
        self.close(self.scores(again, pairs), self.scores(model, pairs))
        assert again.recommend("p00", k=3).equals(model.recommend("p00", k=3))

    @staticmethod
    def scores(model: LinkPredictor, pairs: list[tuple[str, str]]) -> Tensor:
        return torch.tensor(model.predict(pairs)["score"].to_numpy())

    @pytest.mark.gpu
    def test_training_on_a_gpu_follows_training_on_the_cpu(self) -> None:
        there, here = (trained(method=self.name, epochs=2, device=device) for device in ("cuda", "cpu"))
        assert there.history[-1]["loss"] == pytest.approx(here.history[-1]["loss"], rel=0.5)
        assert torch.isfinite(self.scores(there, [("p00", "p01")])).all()
