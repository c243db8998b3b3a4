"""What ranks choose together: NCCL where each has a GPU of its own, else gloo."""

import logging
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from headtail import ranks as module
from headtail.ranks import Ranks
from threads_as_ranks import current, on_ranks


@pytest.mark.parametrize(
    ("gpus", "machines", "chosen", "told"),
    [
        ("abcd", "xxxx", "nccl", None),
        ("abcd", "xxyy", "nccl", None),
        ("abab", "xxxx", "gloo", "2 GPUs for 4 ranks: they speak gloo"),
        ("abca", "xxyy", "gloo", "3 GPUs for 4 ranks: they speak gloo"),
        ("abc-", "xxxy", "gloo", "3 GPUs for 4 ranks: they speak gloo"),
        ("----", "xxxy", "gloo", None),
    ],
)
def test_all_ranks_choose_alike(
    gpus: str,
    machines: str,
    chosen: str,
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "machine", lambda: machines[current().rank])
    # Each sees its GPU as the first, as under Slurm.
    seen = lambda _where: SimpleNamespace(uuid=gpus[current().rank])  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_properties", seen)
    monkeypatch.setattr(dist, "is_nccl_available", lambda: True)

    def work(ranks: Ranks) -> tuple[str, int]:
        speaks = ["gloo"]
        ranks.own_gpus = lambda *_given: speaks.append("nccl")  # type: ignore[attr-defined]
        where = torch.device("cpu") if gpus[ranks.rank] == "-" else torch.device("cuda", 0)
        module._introduced(ranks, where, timedelta(seconds=1))  # type: ignore[arg-type]
        return speaks[-1], ranks.beside

    with caplog.at_level(logging.WARNING):
        found = on_ranks(4, work)
    assert found == [(chosen, machines.count(name)) for name in machines]
    assert [record.getMessage().split(".")[0] for record in caplog.records] == ([told] if told else [])


def test_a_machine_has_a_name() -> None:
    assert module.machine() == module.machine() != ""
    assert 0 <= module.number_of("text") < 2**56
    assert module.number_of("text") != module.number_of("texts")
