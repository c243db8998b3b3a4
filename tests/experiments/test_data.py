"""Data sets are found by name or file, and settings for them are read from YAML."""

from pathlib import Path
from typing import Any

import pytest
from grid_case import plan_of, write_tiny

from headtail.config import Config
from headtail.errors import ConfigError, DataError
from headtail.experiments.data import DataSource, find_data, own_data, read_per_data
from headtail.experiments.one_run import run_key


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "settings.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- finding data


def test_a_name_of_the_catalog() -> None:
    assert find_data("planted") == DataSource("planted", "planted")
    assert find_data("planted").load().num_nodes == 1000


def test_a_file_in_the_root_comes_before_the_catalog(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "planted.npz")
    source = find_data("planted", tmp_path)
    assert source == DataSource("planted", str(path))
    assert source.load().num_nodes == 60


def test_a_file_by_its_path(tmp_path: Path) -> None:
    source = find_data(str(write_tiny(tmp_path / "my.graph.npz")))
    assert (source.name, source.place) == ("my", str(tmp_path / "my.graph.npz"))
    assert source.load().num_nodes == 60


def test_an_unknown_name_is_told_with_the_nearest_first(tmp_path: Path) -> None:
    write_tiny(tmp_path / "metamath.npz")
    with pytest.raises(DataError) as caught:
        find_data("metamat", tmp_path)
    message = str(caught.value)
    assert f"no metamat.npz in {tmp_path}" in message
    assert "did you mean 'metamath'? Valid: metamath, " in message
    assert "ogbl-collab" in message
    with pytest.raises(DataError, match=r"did you mean 'debian'\? Valid: debian, "):
        find_data("debain")


@pytest.mark.parametrize("asked", ["x" * 5000, "nul\0", ".", "/"])
def test_names_that_no_file_can_have(asked: str) -> None:
    with pytest.raises(DataError, match="there is no file"):
        find_data(asked)


def test_an_ogb_name_without_its_folder_tells_what_is_missing(tmp_path: Path) -> None:
    source = find_data("ogbl-ddi", tmp_path)
    assert source.name == "ogbl-ddi"
    with pytest.raises(DataError, match=r"ogbl_ddi lacks raw/num-node-list.csv.gz, split/target/.*--root.*--download"):
        source.load()


def test_files_of_ones_own_are_known_by_content(tmp_path: Path) -> None:
    """The same name may stand for other links, or for links read otherwise: those are other experiments."""
    config = Config()
    (tmp_path / "links.csv").write_text("a,b\n1,2\n2,3\n")
    (tmp_path / "x.npy").write_bytes(b"1")
    place = str(tmp_path / "links.csv")
    options: dict[str, Any] = {"features": tmp_path / "x.npy", "text": ["one", "two"]}
    sources = [own_data(place), own_data(place, {"directed": False}), own_data(place, options)]
    (tmp_path / "x.npy").write_bytes(b"2")
    sources.append(own_data(place, options))
    (tmp_path / "links.csv").write_text("a,b\n1,2\n2,4\n")
    sources.append(own_data(place))
    assert {source.name for source in sources} == {"links"}
    assert len({run_key(source, config) for source in sources}) == len(sources)
    assert len(set(sources)) == len(sources)  # a source can be a key
    (tmp_path / "elsewhere").mkdir()
    moved = (tmp_path / "links.csv").rename(tmp_path / "elsewhere" / "links.csv")
    assert run_key(own_data(str(moved)), config) == run_key(sources[-1], config)


def test_a_name_is_the_same_experiment_wherever_it_is_kept(tmp_path: Path) -> None:
    config = Config()
    by_name = find_data("ogbl-ddi")
    assert run_key(find_data("ogbl-ddi", tmp_path), config) == run_key(by_name, config)
    write_tiny(tmp_path / "ogbl-ddi.npz")
    assert run_key(find_data("ogbl-ddi", tmp_path), config) == run_key(by_name, config)
    assert run_key(own_data("ogbl-ddi", {"root": tmp_path}), config) == run_key(by_name, config)


# ---- settings per data set


def test_later_settings_override_earlier_ones(tmp_path: Path) -> None:
    """preset < data < what the method needs < method on the data < flags."""
    text = """
    here: {epochs: 7, hidden: 16, layers: 5, learning_rate: 0.5, blocked: 0.25, dropout: 0.125,
           methods: {mf: {layers: 6, dropout: 0.25, blocked: 0.75}}}
    there: {epochs: 9}
    """
    per_data = read_per_data(written(tmp_path, text))
    plan = plan_of([DataSource("here", "")], ["aml", "mf"], per_data=per_data)
    plan = type(plan)(plan.sources, plan.variants, 1, "fast", {"blocked": 0.5}, per_data)
    aml, mf = (run.config for run in plan.runs())
    assert aml.sampling.links_per_batch == mf.sampling.links_per_batch == 4096  # preset
    assert aml.training.epochs == mf.training.epochs == 7  # data over preset
    assert (aml.model.hidden, mf.model.hidden) == (16, 128)  # the method's needs over data
    assert (aml.training.learning_rate, mf.training.learning_rate) == (0.5, 0.01)
    assert (aml.model.layers, mf.model.layers) == (5, 6)  # method on data over the method's needs
    assert (aml.model.dropout, mf.model.dropout) == (0.125, 0.25)
    assert aml.sampling.blocked == mf.sampling.blocked == 0.5  # flags over all


def test_aliases_may_be_shared(tmp_path: Path) -> None:
    text = "one: &same {epochs: 3, methods: {seal: {epochs: 1}}}\ntwo: *same\n"
    per_data = read_per_data(written(tmp_path, text))
    for name in ("one", "two"):
        assert per_data.of(name, "seal", "paper") == ({"epochs": 3}, {"epochs": 1})
        assert per_data.of(name, "aml", "paper") == ({"epochs": 3}, {})
    assert per_data.of("three", "seal", "paper") == ({}, {})


def test_the_papers_settings_hold_for_its_data(tmp_path: Path) -> None:
    per_data = read_per_data(written(tmp_path, "ogbl-collab: {epochs: 5}"))
    collab, _ = per_data.of("ogbl-collab", "aml", "paper")
    assert (collab["epochs"], collab["learning_rate"], collab["drop_leaks"]) == (5, 0.001, True)
    # Another preset keeps its own length of training, but is judged alike.
    fast, _ = read_per_data(None).of("ogbl-collab", "aml", "fast")
    assert fast == {"drop_leaks": True, "test_graph": "train+valid"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("debian: {epoch: 3}", r"debian: unknown setting 'epoch'; did you mean 'epochs'\? Valid: epochs, "),
        ("debian: {methods: {amll: {epochs: 3}}}", r"debian: unknown method 'amll'; did you mean 'aml'\?"),
        ("debian: {methods: {seal: {hop: 3}}}", r"debian: unknown setting 'hop'; did you mean 'hops'\?"),
        ("debian: {methods: {seal: {method: cn}}}", "debian: method is not set per data set"),
        ("debian: {seed: 3}", "debian: seed is not set per data set"),
        ("debian: {methods: [seal]}", "debian: methods must map methods to their settings"),
        ("debian: {methods: {seal: 3}}", "debian: methods must map methods to their settings"),
        ("debian: 3", "must map data sets to their settings"),
        ("[1, 2]", "must map data sets to their settings"),
        ("debian: {epochs: 3", "is not valid YAML"),
        (b"\xff\xfe\xff", "is not valid YAML"),
        ("debian: !!python/object/apply:os.getcwd []", "is not valid YAML"),
        ("debian: {1: 2}", "debian: unknown setting 1"),
        ("debian: {methods: {3: {}}}", "debian: unknown method '3'"),
    ],
)
def test_settings_that_mean_nothing_are_told(text: str | bytes, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=message) as caught:
        read_per_data(path)
    assert str(path) in str(caught.value)


def test_every_method_may_have_settings(tmp_path: Path) -> None:
    per_data = read_per_data(written(tmp_path, "a: {methods: {item2hop: {}, symmetric: {epochs: 2}}}"))
    assert per_data.of("a", "symmetric", "fast") == ({}, {"epochs": 2})


def test_an_empty_file_and_none_say_nothing(tmp_path: Path) -> None:
    assert read_per_data(written(tmp_path, "")) == read_per_data(None)
    assert read_per_data(written(tmp_path, "debian: {methods: }")).of("debian", "aml", "fast") == ({}, {})


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read settings .*none.yaml: No such file"):
        read_per_data(tmp_path / "none.yaml")


def test_downloading_is_asked_for_where_it_means_something(tmp_path: Path) -> None:
    assert dict(find_data("ogbl-ddi", tmp_path, download=True).options) == {"root": str(tmp_path), "download": True}
    assert find_data("ogbl-ddi").options == ()
    assert find_data("planted", tmp_path, download=True).options == ()
