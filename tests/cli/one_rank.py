"""A rank that is one of one and yet exchanges everything, as one of several would: `one_rank.py DEVICE BACKEND RUN`.

It trains, judges and recommends; so a machine with one GPU can try what NCCL does there.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from headtail import ranks as module
from headtail.ranks import ProcessRanks
from headtail.training.observer import Observer
from tiny_runs import predictor, small_graph, timeless

MINUTE = timedelta(minutes=1)


class OneRank(ProcessRanks):
    """Exchanges with nobody but itself."""

    exchanges = 0

    @property
    def several(self) -> bool:
        return True

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        OneRank.exchanges += 1
        return super().sum(x)


def main(device: str, backend: str, run: Path) -> None:
    dist.init_process_group("gloo", timeout=MINUTE)
    where = torch.device(device, 0) if device == "cuda" else torch.device(device)
    ranks = OneRank(0, 1, where)
    if backend == "nccl":
        module._introduced(ranks, where, MINUTE)
        assert dist.get_backend(ranks._group) == "nccl"
        assert ranks._meeting == where
    module._Current.ranks = ranks
    # Kernels of others sum in no order, and a preset's own do; so the same numbers come out again.
    # In fp32, since one process alone rounds its tables to bf16.
    model = predictor(device=device, epochs=2, precision="fp32").fit(small_graph(), run, observer=Observer())
    links = model.recommend(k=5)
    history = [timeless(record) for record in model.history]
    answer = {"history": history, "result": timeless(model.evaluate()), "links": links.to_dict("list")}
    print(json.dumps(answer | {"exchanges": OneRank.exchanges}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
