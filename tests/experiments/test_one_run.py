"""One run gives what the predictor gives, with a test curve, and a key that names the experiment."""

import json
from pathlib import Path
from typing import Any

import pytest
from grid_case import TINY, tiny_source

from headtail.config import SECTION_OF, Config, make_config
from headtail.evaluation.parts import evaluate_part
from headtail.experiments.data import DataSource
from headtail.experiments.one_run import TaskCache, changed_settings, run_config, run_key, run_once
from headtail.experiments.results import RunResult
from headtail.experiments.variants import variant_named
from headtail.graph.graph import Graph
from headtail.predictor import LinkPredictor
from headtail.training.counters import COUNTERS
from headtail.training.observer import Observer
from tiny_runs import Stop, timeless


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> DataSource:
    return tiny_source(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def graph(source: DataSource) -> Graph:
    return source.load()


def config_of(method: str = "aml", seed: int = 0, **given: Any) -> Config:
    return run_config(variant_named(method), "fast", {}, TINY | given, seed)


def once(source: DataSource, graph: Graph, method: str = "aml", **given: Any) -> RunResult:
    return run_once(source, graph, variant_named(method), config_of(method, **given), TaskCache())


@pytest.mark.slow
def test_a_run_gives_what_the_predictor_gives(source: DataSource, graph: Graph) -> None:
    found = once(source, graph, epochs=4, seed=1)
    model = LinkPredictor(preset="fast", **(TINY | {"epochs": 4, "seed": 1})).fit(graph, observer=Observer())
    expected = model.evaluate()
    assert found.test == expected["mrr"]
    assert (found.epochs, found.best_epoch) == (4, expected["best_epoch"])
    assert found.valid == max(record["valid_mrr"] for record in model.history)
    last = model.history[-1]
    assert found.per_epoch == {name: last[name] for name in COUNTERS}
    assert found.links == last["links"] == graph.links.shape[1]
    assert [point[1] for point in found.curve] == [record["valid_mrr"] for record in model.history]
    # The test metric of the best epoch is the one that is reported.
    assert found.curve[found.best_epoch - 1][2] == pytest.approx(found.test)
    seconds = [point[0] for point in found.curve]
    assert seconds == sorted(seconds)
    assert seconds[-1] == pytest.approx(found.train_seconds)
    assert (found.data, found.method, found.seed, found.metric, found.protocol) == ("tiny", "aml", 1, "mrr", "clean")


@pytest.mark.slow
def test_the_curve_has_validated_epochs_only(source: DataSource, graph: Graph) -> None:
    every = once(source, graph, epochs=5)
    some = once(source, graph, epochs=5, evaluate_every=2)
    assert [point[1:] for point in some.curve] == [every.curve[epoch - 1][1:] for epoch in (2, 4, 5)]


def test_the_test_graph_may_see_validation_links(source: DataSource, graph: Graph) -> None:
    found = once(source, graph, epochs=3, test_graph="train+valid")
    assert found.test_graph == "train+valid"
    assert found.curve[found.best_epoch - 1][2] == pytest.approx(found.test)
    assert found.test != once(source, graph, epochs=3).test


def test_a_heuristic_needs_no_epoch(source: DataSource, graph: Graph) -> None:
    found = once(source, graph, "ra")
    assert (found.epochs, found.links, found.train_seconds, found.curve) == (0, 0, 0, [])
    cache = TaskCache()
    task = cache.task(graph, config_of("ra"))
    from headtail.baselines.heuristics import HEURISTICS

    scorer = HEURISTICS["ra"]().scorer(task.train_view)
    assert found.test == evaluate_part(scorer, task, "test")["mrr"]
    assert found.valid == evaluate_part(scorer, task, "valid")["mrr"]


def test_validation_links_that_are_trained_on_judge_nothing(source: DataSource, graph: Graph) -> None:
    for method in ("aml", "ra"):
        found = once(source, graph, method, protocol="val-as-train")
        assert (found.valid, found.curve, found.protocol) == (-1, [], "val-as-train")
        assert 0 < found.test <= 1
    assert once(source, graph, protocol="val-as-train").best_epoch == TINY["epochs"]


def test_a_run_for_its_work_alone_is_not_judged(source: DataSource, graph: Graph) -> None:
    found = run_once(source, graph, variant_named("aml"), config_of(), TaskCache(), judged=False)
    assert (found.test, found.valid, found.curve) == (-1, -1, [])
    assert found.per_epoch == once(source, graph).per_epoch


@pytest.mark.parametrize("stop", [Stop(epoch=1), Stop(epoch=2, batch=1)])
def test_half_a_run_is_no_result(source: DataSource, graph: Graph, stop: Stop) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_once(source, graph, variant_named("aml"), config_of(epochs=3), TaskCache(), stop)
    assert stop.calls[-1] == "finished"


def test_a_task_is_shared_by_runs_that_agree_on_it(graph: Graph) -> None:
    cache = TaskCache()
    task = cache.task(graph, config_of("aml"))
    assert cache.task(graph, config_of("sage", epochs=9)) is task
    for changed in ({"seed": 1}, {"test_graph": "train+valid"}, {"structure": 4}):
        assert cache.task(graph, config_of(**changed)) is not task
        task = cache.task(graph, config_of())


def test_the_key_ignores_seed_and_device_only() -> None:
    source, plain = DataSource("tiny", ""), Config()
    key = run_key(source, plain)
    other: dict[str, Any] = {
        "method": "ra",
        "encoder": "gat",
        "normalisation": "column",
        "structure_from": "mf",
        "batches": "edges",
        "neighbours": "full",
        "negatives": "tail",
        "objective": "cross_entropy",
        "split": "random",
        "protocol": "ogb",
        "metric": "mrr",
        "test_graph": "train+valid",
        "norm_statistics": "running",
        "features_on": "host",
        "structure": 3,
        "fanout_output": "all",
        "fanout_inner": "all",
        "nodes_per_hop": "all",
        "links_per_epoch": 5,
        "evidence": "common",
        "supervision": "newest",
        "precision": "bf16",
        "answers": "exact",
    }
    for name, section in SECTION_OF.items():
        value = getattr(getattr(plain, section), name)
        if name == "device":
            changed: Any = "cpu"
        elif name in other:
            changed = other[name]
        elif isinstance(value, bool):
            changed = not value
        else:
            changed = value + 1 if isinstance(value, int) else value / 2 + 0.01
        config = make_config("paper", settings={name: changed})
        # Alone: what a method needs would change the key too.
        single = plain.model_copy(
            update={section: getattr(plain, section).model_copy(update={name: getattr(getattr(config, section), name)})}
        )
        assert (run_key(source, single) == key) == (name in ("seed", "device")), name
    assert run_key(DataSource("other", ""), plain) != key


def test_published_results_keep_their_keys() -> None:
    """What is stored counts as done: neither new settings nor new variants make another experiment of it."""
    file = Path(__file__).parents[2] / "docs" / "experiments" / "results.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 100
    for line in lines:
        config = run_config(variant_named(line["method"]), "paper", {}, line["settings"], line["seed"])
        assert run_key(DataSource(line["data"], ""), config) == line["key"], line


def test_the_place_of_named_data_is_not_in_the_key() -> None:
    """Where a named data set lies makes no other experiment of it."""
    assert run_key(DataSource("debian", "a"), Config()) == run_key(
        DataSource("debian", "b", (("root", "c"),)), Config()
    )


def test_changed_settings_name_what_differs() -> None:
    config = config_of("aml-no-kt", seed=5, blocked=0.25)
    changed = changed_settings(config)
    assert changed["knowledge_transfer"] is False
    assert changed["blocked"] == 0.25
    assert not {"seed", "device", "method"} & set(changed)
    assert changed_settings(Config()) == {}


def test_a_setting_that_is_as_by_default_is_not_in_the_key() -> None:
    source, plain = DataSource("debian", ""), Config()
    dumped = plain.model_dump()
    spelled_out = run_config(variant_named("aml"), "paper", {}, {"layers": dumped["model"]["layers"]}, 0)
    assert changed_settings(spelled_out) == {}
    assert run_key(source, spelled_out) == run_key(source, plain)


@pytest.mark.parametrize("method", ["ra", "aml"])
def test_lists_are_judged_as_the_predictor_does(source: DataSource, graph: Graph, method: str) -> None:
    config = config_of(method)
    found = run_once(source, graph, variant_named(method), config, TaskCache(), curves=False, heads_sampled=8)
    wanted = LinkPredictor(config=config).fit(graph, observer=Observer()).evaluate(heads_sampled=8)
    assert found.all_nodes is not None
    assert timeless(found.all_nodes) == timeless(wanted["all_nodes"])
    assert (found.negatives, found.heads_sampled) == (15, 8)
    assert once(source, graph, method).all_nodes is None
