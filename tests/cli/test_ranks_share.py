"""Real processes share the work before and after training: pre-encoding, and the encoding of all nodes."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from real_ranks import SECONDS, two_processes

from headtail import LinkPredictor
from headtail.cli import main
from headtail.graph.csr import CSR
from headtail.graph.pre_encoding import pre_encode_on_disk

SETTINGS = "--preset fast --hidden 8 --layers 2 --structure 0 --links-per-batch 200 --eval-negatives 20 --device cpu"

# Two ranks that exchange all kinds of things, then pre-encode into a file; the writer is killed amid the exchange.
PRE_ENCODE = """
import os, signal, sys
from pathlib import Path
import torch
from headtail.graph import exchange
from headtail.graph.csr import CSR
from headtail.graph.message import normalise
from headtail.graph.pre_encoding_across import pre_encode_across
from headtail.ranks import joined

exchange.BLOCK_BYTES = 2**9
adjacency = normalise(CSR.from_links(torch.arange(200).expand(2, -1), 200), "row")
x = torch.arange(1400.0).view(200, 7)
with joined("cpu") as ranks:
    assert (ranks.beside, ranks.size) == (2, 2)
    for kind in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        for shape in ((), (0, 3), (2, 3)):
            found = ranks.each(torch.full(shape, ranks.rank, dtype=kind))
            assert found.shape == (2, *shape) and found.dtype == kind
            assert (found[0] == 0).all() and (found[1] == 1).all()
    assert ranks.of_first(torch.tensor([3.0 + ranks.rank])).tolist() == [3.0]
    plain, times = ranks.each, 0

    def each(part):
        global times
        times += 1
        if times == 4 and ranks.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(part)

    ranks.each = each
    pre_encode_across(ranks, adjacency, x, 1, on_disk=True, kept=Path(sys.argv[1]))
"""


@pytest.mark.slow
def test_a_rank_that_is_killed_in_an_exchange_leaves_no_whole_file(tmp_path: Path) -> None:
    kept = tmp_path / "encoded.npy"
    with two_processes("-c", PRE_ENCODE, str(kept), python=()) as (writer, other):
        _, told = other.communicate(timeout=SECONDS)
        assert other.returncode == 1
        assert "RanksError: rank 1 of 2 lost the others" in told
        assert writer.wait(timeout=SECONDS) == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".encoded.npy.")
    assert left.stat().st_size > 4 * 200 * 7  # its room is claimed from the start, so size alone tells nothing
    loops, x = CSR.from_links(torch.arange(200).expand(2, -1), 200), torch.arange(1400.0).view(200, 7)
    assert torch.equal(pre_encode_on_disk(loops, x, 1, kept), x)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["encoded.npy"]
    assert np.array_equal(np.load(kept), x.numpy())


@pytest.mark.slow
def test_two_ranks_train_and_judge_a_packed_graph(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", random.standard_normal((60, 5)).astype(np.float32))
    lines = [f"{a},{b}" for a, b in random.integers(60, size=(500, 2)) if a != b]
    (tmp_path / "links.csv").write_text("source,target\n" + "\n".join(lines) + "\n")
    packed, run = tmp_path / "graph.ht", tmp_path / "run"
    pack = ["data", "pack", str(tmp_path / "links.csv"), "--features", str(tmp_path / "x.npy"), "-o", str(packed)]
    assert main(pack) == 0, capfd.readouterr().err
    train = ["train", str(packed), "--out", str(run), *SETTINGS.split(), "--features-on", "disk", "--epochs", "2"]
    with two_processes(*train) as ranks:
        told = [process.communicate(timeout=SECONDS) for process in ranks]
        assert [process.returncode for process in ranks] == [0, 0], told
    model = LinkPredictor.load(run, device="cpu")
    graph = model.method._message_graph(model.task.train_view)  # type: ignore[attr-defined]
    wanted = graph.adjacency.matmul(graph.adjacency.matmul(graph.features))
    (kept,) = packed.glob("encoded-*.npy")
    assert np.array_equal(np.load(kept), wanted.numpy())
    assert not list(packed.glob(".*"))
    with two_processes("evaluate", str(run), "--device", "cpu", "--json") as ranks:
        (out, told), (silence, _) = (process.communicate(timeout=SECONDS) for process in ranks)
        assert [process.returncode for process in ranks] == [0, 0], told
    assert silence == ""
    result, alone = json.loads(out), model.evaluate()
    assert [result[name] for name in ("mrr", "hits@1", "hits@10")] == pytest.approx(
        [alone[name] for name in ("mrr", "hits@1", "hits@10")], abs=1e-6
    )
