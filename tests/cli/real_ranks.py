"""Ranks that are processes, started as torchrun or a scheduler would."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 120


def torchrun(
    *arguments: str, ranks: int = 2, python: tuple[str, ...] = ("-m", "headtail"), **environment: str
) -> subprocess.Popen[str]:
    """Starts ranks by PyTorch's launcher."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return subprocess.Popen(
        [sys.executable, *launcher, *python, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | environment,
    )


@contextmanager
def two_processes(
    *arguments: str, python: tuple[str, ...] = ("-m", "headtail"), **environment: str
) -> Iterator[list[subprocess.Popen[str]]]:
    """Starts two ranks by their variables alone, as Slurm or Kubernetes would; ends what is left of them."""
    port = str(20000 + os.getpid() % 20000)
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"} | environment
    ranks = [
        subprocess.Popen(
            [sys.executable, *python, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(2)
    ]
    try:
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.communicate()
