"""The readers of what headtail itself writes: run folders, checkpoints, settings, results; and of names to ask for."""

import json
from functools import cache
from pathlib import Path

from reader_targets import Target, called, links

from headtail import LinkPredictor, load
from headtail.cli.predict import predict
from headtail.cli.recommend import recommend
from headtail.cli.train import train
from headtail.config import make_config
from headtail.experiments.data import read_per_data
from headtail.experiments.one_run import run_config
from headtail.experiments.results import append_result, read_results
from headtail.experiments.variants import variant_named
from headtail.methods import check_names
from headtail.training.observer import Observer

RUN = (
    *("config.yaml", "model.safetensors", "graph.safetensors", "nodes.parquet", "metrics.jsonl"),
    "answers.safetensors",
)
SMALL = {"epochs": 2, "hidden": 4, "layers": 2, "structure": 4, "eval_negatives": 5, "device": "cpu"}


def _run_seed(folder: Path) -> None:
    lines = ["from,to", *(f"n{head},n{tail}" for head, tail, _ in links())]
    (folder / "links.csv").write_text("\n".join(lines))
    graph = load(folder / "links.csv")
    settings = {**SMALL, "evidence": "degrees,common,paths"}
    LinkPredictor("fast", **settings).fit(graph, folder / "run", observer=Observer())
    (folder / "heads.txt").write_text("n0\nn1\nn2\n")
    (folder / "pairs.csv").write_text("head,tail\nn0,n1\nn2,n3\n")


class _Once(Observer):
    """Stops after the first epoch, so that there is something to resume."""

    def epoch_done(self, record: object) -> None:
        raise KeyboardInterrupt


def _checkpoint_seed(folder: Path) -> None:
    _run_seed(folder)
    graph = load(folder / "links.csv")
    settings = {**SMALL, "averaging": 0.5}
    LinkPredictor("fast", **settings).fit(graph, folder / "run", overwrite=True, observer=_Once())


def _evaluate(folder: Path) -> None:
    model = LinkPredictor.load(folder / "run", "cpu")
    model.evaluate()
    recommend(folder / "run", heads="n0", k=3, device="cpu")
    model.recommend("n0", k=3, exact=True)


def _answer(folder: Path) -> None:
    recommend(folder / "run", heads="n0,n1,n2", k=3, device="cpu", as_json=True)


def _resume(folder: Path) -> None:
    train(str(folder / "links.csv"), folder / "run", {}, {}, resume=True, as_json=True)


def _ask(folder: Path) -> None:
    recommend(folder / "run", heads_file=folder / "heads.txt", k=3, device="cpu", as_json=True)
    predict(folder / "run", folder / "pairs.csv", device="cpu", as_json=True)


def _settings(folder: Path) -> None:
    config = make_config("strong", folder / "settings.yaml")
    check_names(config)
    make_config("strong", None, json.loads(json.dumps(config.training.model_dump())))


def _per_data(folder: Path) -> None:
    found = read_per_data(folder / "per-data.yaml")
    for_data, for_method = found.of("debian", "seal", "paper")
    run_config(variant_named("seal"), "paper", for_data, for_method, 0)


@cache
def _result_line() -> bytes:
    import dataclasses

    from headtail.experiments.results import RunResult

    values = {"str": "a", "int": 1, "float": 0.5, "dict": {}, "list": [[0.5, 0.5, 0.5]]}
    made = {
        field.name: values[str(getattr(field.type, "__name__", field.type)).split(" | ")[0].split("[")[0]]
        for field in dataclasses.fields(RunResult)
    }
    return json.dumps(made).encode() + b"\n"


def _results(folder: Path) -> None:
    read_results(folder / "results.jsonl", lambda sentence: None)
    assert append_result  # what is read was written by it


def run_targets() -> list[Target]:
    """The readers of our own files."""
    return [
        Target("run folder", _run_seed, tuple(f"run/{name}" for name in RUN), called(_evaluate)),
        Target("answers JSON", _run_seed, ("run/answers.json",), called(_answer)),
        Target("checkpoint", _checkpoint_seed, ("run/checkpoint.safetensors", "run/config.yaml"), called(_resume)),
        Target(
            "settings YAML",
            lambda folder: _write(folder / "settings.yaml", make_config("strong").to_yaml()),
            ("settings.yaml",),
            called(_settings),
        ),
        Target(
            "per-data YAML",
            lambda folder: _write(folder / "per-data.yaml", "debian:\n  epochs: 20\n  methods: {seal: {epochs: 2}}\n"),
            ("per-data.yaml",),
            called(_per_data),
        ),
        Target(
            "results JSONL",
            lambda folder: _write(folder / "results.jsonl", (_result_line() * 3).decode()),
            ("results.jsonl",),
            called(_results),
        ),
        Target(
            "names and pairs",
            _run_seed,
            ("heads.txt", "pairs.csv"),
            called(_ask),
        ),
    ]


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
