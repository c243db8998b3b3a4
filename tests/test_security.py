"""Files of strangers run no code, lead nowhere else, and are not believed."""

import ast
import io
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from headtail import LinkPredictor, load
from headtail.config import make_config
from headtail.errors import ConfigError, DataError, HeadtailError, RunError
from headtail.files import read_tensors, write_tensors, write_text
from headtail.graph.store import fingerprint, save_task
from headtail.nn.convolutions import make_convolution
from headtail.run_files import RUN_FILES
from headtail.training.observer import Observer
from test_layout import MODULES, name_of, pickle_uses, tree_of
from tiny_runs import predictor, small_graph

REPOSITORY = Path(__file__).resolve().parents[1]


def dangers(tree: ast.AST) -> list[str]:
    """Returns the calls in a module that run what a file says: pickles, code, YAML with objects, shells."""
    found = pickle_uses(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        words = {word.arg for word in node.keywords}
        if name in {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "marshal.loads"}:
            found.append(name)
        if name in {"yaml.load", "yaml.unsafe_load", "yaml.full_load", "yaml.Loader", "yaml.UnsafeLoader"}:
            found.append(name)
        if name in {"np.load", "numpy.load", "npy.read_array"} and "allow_pickle" not in words:
            found.append(f"{name} without allow_pickle=False")
        if name.startswith("subprocess.") and "shell" in words:
            found.append(f"{name} with a shell")
    return found


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_nothing_runs_what_a_file_says(module: Path) -> None:
    assert dangers(tree_of(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "eval(text)",
        "exec(code)",
        "yaml.load(f)",
        "yaml.load(f, Loader=yaml.Loader)",
        "np.load(path)",
        "npy.read_array(stream)",
        "torch.load(f)",
        "import pickle",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
    ],
)
def test_every_danger_is_seen(text: str) -> None:
    assert dangers(ast.parse(text))
    assert not dangers(ast.parse("model.eval(); yaml.safe_load(f); np.load(f, allow_pickle=False); re.compile('x')"))


# ---- pickles ----


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.proof,)


@pytest.fixture
def proof(tmp_path: Path) -> Path:
    """The file that code of a pickle would write."""
    return tmp_path / "code-ran"


def pickled_array(proof: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Bomb(proof)], dtype=object), allow_pickle=True)
    return file.getvalue()


def pickled_npz(proof: Path) -> bytes:
    file = io.BytesIO()
    np.savez(file, num_nodes=np.array(3), directed=True, train=np.array([[Bomb(proof)], [1]], dtype=object))
    return file.getvalue()


def test_the_bomb_is_one(proof: Path) -> None:
    pickle.loads(pickle.dumps(Bomb(proof)))
    assert proof.exists()


@pytest.mark.parametrize("name", ["g.csv", "g.tsv", "g.txt", "g.parquet", "g.npz"])
def test_no_reader_of_links_unpickles(tmp_path: Path, proof: Path, name: str) -> None:
    for content in (pickle.dumps(Bomb(proof)), pickled_array(proof), pickled_npz(proof)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError):
            load(tmp_path / name)
    assert not proof.exists()


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet"])
def test_no_reader_of_features_unpickles(tmp_path: Path, proof: Path, name: str) -> None:
    (tmp_path / "g.csv").write_text("a,b\n0,1\n1,2\n2,0\n")
    for content in (pickle.dumps(Bomb(proof)), pickled_array(proof), pickled_npz(proof)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError):
            load(tmp_path / "g.csv", features=tmp_path / name)
    assert not proof.exists()


def test_settings_make_no_objects(tmp_path: Path, proof: Path) -> None:
    (tmp_path / "c.yaml").write_text(f"epochs: !!python/object/apply:pathlib.Path.touch [{proof}]")
    with pytest.raises(ConfigError):
        make_config("fast", tmp_path / "c.yaml")
    assert not proof.exists()


def test_ogb_files_are_not_unpickled(tmp_path: Path, proof: Path) -> None:
    from headtail.datasets.ogb_files import read_pt

    torch.save({"edge": Bomb(proof)}, tmp_path / "train.pt")
    with pytest.raises(DataError, match="nothing in a data file is run"):
        read_pt(tmp_path / "train.pt")
    assert not proof.exists()


# ---- run folders ----


@pytest.fixture(scope="module")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("security") / "run"
    predictor(epochs=1, final=True).fit(small_graph(), folder, observer=Observer())
    return folder


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.mark.parametrize("name", sorted(set(RUN_FILES) - {"README.md"}))
def test_no_file_of_a_run_is_unpickled(run: Path, proof: Path, name: str) -> None:
    for content in (pickle.dumps(Bomb(proof)), pickled_array(proof), _torch_file(proof)):
        (run / name).write_bytes(content)
        with pytest.raises(HeadtailError):
            LinkPredictor.load(run, "cpu") if "checkpoint" not in name else _resumed(run)
    assert not proof.exists()


def _torch_file(proof: Path) -> bytes:
    file = io.BytesIO()
    torch.save({"weights": Bomb(proof)}, file)
    return file.getvalue()


def _resumed(run: Path) -> LinkPredictor:
    return predictor(epochs=1, final=True).fit(small_graph(), run, resume=True, observer=Observer())


@pytest.mark.parametrize(
    "name", ["model.safetensors", "graph.safetensors", "config.yaml", "nodes.parquet", "answers.safetensors"]
)
def test_links_out_of_the_folder_are_refused(run: Path, name: str) -> None:
    (run / name).rename(run.parent / name)
    (run / name).symlink_to(run.parent / name)
    with pytest.raises(RunError, match="leads out of the run folder"):
        LinkPredictor.load(run, "cpu")
    (run / name).unlink()
    (run / name).symlink_to(f"../{name}")
    with pytest.raises(RunError, match="leads out of the run folder"):
        LinkPredictor.load(run, "cpu")


def test_a_link_within_the_folder_is_followed(run: Path) -> None:
    (run / "model.safetensors").rename(run / "first.safetensors")
    (run / "model.safetensors").symlink_to("first.safetensors")
    assert LinkPredictor.load(run, "cpu").best_epoch == 1


def test_a_resumed_run_stays_in_its_folder(run: Path) -> None:
    (run / "checkpoint.safetensors").rename(run.parent / "checkpoint.safetensors")
    (run / "checkpoint.safetensors").symlink_to("../checkpoint.safetensors")
    with pytest.raises(RunError, match="leads out of the run folder"):
        _resumed(run)


def test_writing_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "run.txt").symlink_to("mine.txt")
    write_text(tmp_path / "run.txt", "new")
    assert ((tmp_path / "mine.txt").read_text(), (tmp_path / "run.txt").read_text()) == ("mine", "new")


def test_nobody_can_lead_the_temporary_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headtail.files.os.getpid", lambda: 77)
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / ".run.txt.77.tmp").symlink_to("mine.txt")
    write_text(tmp_path / "run.txt", "new")
    assert ((tmp_path / "mine.txt").read_text(), (tmp_path / "run.txt").read_text()) == ("mine", "new")


@pytest.mark.parametrize("name", ["Sequential", "../x", "__builtins__", "os", "MessagePassing.__init__", "utils"])
def test_an_encoder_is_a_convolution_and_nothing_else(name: str) -> None:
    with pytest.raises(ConfigError):
        make_convolution(f"pyg:{name}", 4, 4)


@pytest.mark.parametrize(
    ("setting", "value"), [("hidden", 60_000), ("hidden", 10**12), ("layers", 90), ("scorer_layers", 10**9)]
)
def test_a_model_larger_than_its_weights_is_not_built(run: Path, setting: str, value: int) -> None:
    text = (run / "config.yaml").read_text().splitlines()
    changed = [f"  {setting}: {value}" if line.startswith(f"  {setting}:") else line for line in text]
    assert changed != text
    (run / "config.yaml").write_text("\n".join(changed))
    with pytest.raises(HeadtailError):
        LinkPredictor.load(run, "cpu")


def _wild(tensor: Tensor) -> list[Tensor]:
    return [tensor + 10**6, -tensor - 1, tensor.float(), tensor[:1], tensor[:, :0], tensor.int()]


@pytest.mark.parametrize("case", range(6))
@pytest.mark.parametrize("part", ["train", "valid"])
def test_a_graph_that_fits_its_fingerprint_is_checked_all_the_same(run: Path, part: str, case: int) -> None:
    task = LinkPredictor.load(run, "cpu").task
    split = task.split
    if part == "train":
        split = replace(split, train=_wild(split.train)[case])
    else:
        split = replace(split, valid=replace(split.valid, positives=_wild(split.valid.positives)[case]))
    forged = replace(task, split=split)
    save_task(forged, run)
    assert read_tensors(run / "graph.safetensors")[1]["fingerprint"] == fingerprint(forged)
    with pytest.raises(RunError, match="is damaged"):
        LinkPredictor.load(run, "cpu")


@pytest.mark.parametrize(
    "line", ["[]", "1", '{"loss": 1}', '{"loss": 1, "seconds": "x"}', '{"loss": 1, "seconds": []}', "[" * 10_000]
)
def test_metrics_are_checked(run: Path, line: str) -> None:
    (run / "metrics.jsonl").write_text(line)
    with pytest.raises(RunError, match="damaged"):
        LinkPredictor.load(run, "cpu")


def test_the_facts_of_a_model_are_checked(run: Path) -> None:
    weights, facts = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", weights, facts | {"best_epoch": "-0.0"})
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        LinkPredictor.load(run, "cpu")


@pytest.mark.parametrize("change", ["best", "adam", "history", "epoch"])
def test_checkpoints_are_checked(run: Path, change: str) -> None:
    tensors, facts = read_tensors(run / "checkpoint.safetensors")
    if change in ("best", "adam"):
        name = next(name for name in tensors if name.startswith(change) and tensors[name].dim() == 2)
        tensors[name] = torch.zeros(3, 3)
    else:
        facts[change] = {"history": [1], "epoch": 7}[change]
    write_tensors(run / "checkpoint.safetensors", tensors, facts)
    with pytest.raises(RunError, match="does not fit the model"):
        _resumed(run)
