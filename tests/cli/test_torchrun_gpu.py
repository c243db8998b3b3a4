"""Ranks on a GPU: one that speaks NCCL, and two that share the GPU and so speak gloo. A machine with one GPU will do.

What needs no GPU of it runs without one too.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from real_ranks import SECONDS, torchrun

from headtail import LinkPredictor
from headtail.cli import main
from tiny_runs import small_graph, timeless

HERE = Path(__file__).parent
SETTINGS = "--preset fast --hidden 8 --layers 2 --structure 4 --links-per-batch 64 --eval-negatives 20"
ON_GPU = {"CUDA_VISIBLE_DEVICES": "0"}


def ended(job: "subprocess.Popen[str]") -> tuple[str, str]:
    """Returns what a job printed and told, once it ended well."""
    try:
        out, told = job.communicate(timeout=2 * SECONDS)
    finally:
        job.kill()
    assert job.returncode == 0, told
    return out, told


def one_rank(device: str, backend: str, run: Path) -> dict[str, Any]:
    """Trains, judges and recommends by one rank that exchanges everything."""
    paths = ":".join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    job = torchrun(device, backend, str(run), ranks=1, python=(str(HERE / "one_rank.py"),), PYTHONPATH=paths)
    found: dict[str, Any] = json.loads(ended(job)[0])
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("device", "backend"), [("cpu", "gloo"), pytest.param("cuda", "nccl", marks=pytest.mark.gpu)])
def test_one_rank_that_exchanges_everything(device: str, backend: str, tmp_path: Path) -> None:
    found = one_rank(device, backend, tmp_path / "run")
    assert found["exchanges"] > 20
    model = LinkPredictor.load(tmp_path / "run", device)  # in one process, without ranks
    alone = timeless(model.evaluate())
    assert {name: found["result"][name] for name in ("mrr", "hits@10")} == pytest.approx(
        {name: alone[name] for name in ("mrr", "hits@10")}, abs=1e-3
    )
    links = pd.DataFrame(found["links"])
    wanted = model.recommend(k=5)
    assert links[["head", "rank"]].equals(wanted[["head", "rank"]])
    np.testing.assert_allclose(links["score"], wanted["score"], rtol=1e-3, atol=1e-3)
    if backend == "nccl":  # what is exchanged does not depend on how
        other = one_rank(device, "gloo", tmp_path / "gloo")
        assert [record["loss"] for record in other["history"]] == pytest.approx(
            [record["loss"] for record in found["history"]], rel=1e-4
        )


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = small_graph()
    names = graph.names.array()
    path = tmp_path_factory.mktemp("data") / "links.csv"
    table = pd.DataFrame({"source": names[graph.links[0]], "target": names[graph.links[1]]})
    table.to_csv(path, index=False)
    return path


@pytest.mark.gpu
def test_one_rank_under_torchrun_is_one_process(links: Path, tmp_path: Path) -> None:
    train = ["train", str(links), *SETTINGS.split(), "--device", "cuda", "--epochs", "2", "--out"]
    ended(torchrun(*train, str(tmp_path / "with"), ranks=1, **ON_GPU))
    assert main([*train, str(tmp_path / "without")]) == 0
    told = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("with", "without")]
    records = [[timeless(json.loads(line)) for line in lines] for lines in told]
    assert records[0] == records[1]


@pytest.mark.gpu
def test_two_ranks_share_a_gpu(links: Path, tmp_path: Path) -> None:
    results = {}
    for device in ("cuda", "cpu"):
        run = tmp_path / device
        arguments = [
            "train",
            str(links),
            "--out",
            str(run),
            *SETTINGS.split(),
            "--device",
            device,
            "--epochs",
            "1",
            "--json",
        ]
        out, told = ended(torchrun(*arguments, **ON_GPU))
        assert ("1 GPUs for 2 ranks: they speak gloo" in told) == (device == "cuda")
        first = json.loads((run / "metrics.jsonl").read_text().splitlines()[0])
        results[device] = first | {"test": json.loads(out)["mrr"]}
    on_gpu, on_cpu = results["cuda"], results["cpu"]
    assert (on_gpu["links"], on_gpu["pairs_scored"]) == (on_cpu["links"], on_cpu["pairs_scored"])
    # Random numbers of a GPU are others.
    assert on_gpu["loss"] == pytest.approx(on_cpu["loss"], rel=0.3)
    judged = {}
    for device in ("cuda", "cpu"):  # the same weights
        out, _ = ended(torchrun("evaluate", str(tmp_path / "cuda"), "--device", device, "--json", **ON_GPU))
        table = tmp_path / f"{device}.csv"
        options = ["-k", "5", "--out", str(table), "--device", device]
        ended(torchrun("recommend", str(tmp_path / "cuda"), *options, **ON_GPU))
        judged[device] = json.loads(out)["mrr"], pd.read_csv(table)
    assert judged["cuda"][0] == pytest.approx(judged["cpu"][0], abs=0.02)
    scores = [table["score"] for _, table in judged.values()]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-2, atol=1e-2)
