"""The house itself: who may import whom, how long a module may be, and the one idiom for names."""

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

import headtail
from headtail.config import SECTION_OF, SECTIONS, Config, make_config
from headtail.errors import ConfigError
from headtail.presets import PRESETS
from headtail.registry import Registry

SOURCE = Path(headtail.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
# Each room imports only from its left.
ROOMS = ("kernels", "datasets", "graph", "sampling", "nn", "training", "evaluation", "serving")
LEAVES = {
    "memory",
    "progress",
    "limits",
    "yamlfile",
    "config",
    "presets",
    "errors",
    "registry",
    "files",
    "garbage",
    "given",
    "run_files",
    "contract",
    "ranks",
}
# On top of the rooms: may import everything, and no room may import them.
ROOF = {
    *("__init__", "__main__", "cli", "experiments", "predictor", "methods", "card", "judged", "runs", "stored_run"),
    *("kept_answers", "final"),
}
MAY_IMPORT = (
    {room: set(ROOMS[: place + 1]) | LEAVES for place, room in enumerate(ROOMS)}
    | {leaf: set(LEAVES) for leaf in LEAVES}
    | {"contract": LEAVES | {"graph"}, "baselines": LEAVES | {*ROOMS[: ROOMS.index("training") + 1], "baselines"}}
)
LONGEST = 300


def name_of(module: Path) -> str:
    return module.relative_to(SOURCE).as_posix()


def room_of(module: Path) -> str:
    """Returns the first folder below the package, or the module's own name where it lies in none."""
    return module.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def tree_of(module: Path) -> ast.Module:
    """Returns a module as parsed, once for all who look at it."""
    return ast.parse(module.read_text(encoding="utf-8"))


def imported_rooms(tree: ast.AST) -> set[str]:
    """Returns the rooms of the package that a module imports, wherever in its text the import stands."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            if node.module == "headtail":
                names += [f"headtail.{alias.name}" for alias in node.names]
            else:
                names.append(node.module or "")
    return {name.split(".")[1] for name in names if name.startswith("headtail.")}


def pickle_uses(tree: ast.AST) -> list[str]:
    """Returns what in a module reads or writes pickles.

    `torch.load` with a literal weights_only=True is none of it: it runs nothing, and reads what others wrote.
    """
    found = []
    harmless = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call) and loads_weights_only(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            names = [origin, *(alias.name for alias in node.names)]
            found += [name for name in names if name.split(".")[0] in {"pickle", "cPickle", "dill", "joblib", "shelve"}]
        elif isinstance(node, ast.Attribute) and node not in harmless:
            if isinstance(node.value, ast.Name) and node.value.id == "torch" and node.attr in {"load", "save"}:
                found.append(f"torch.{node.attr}")
            if node.attr in {"read_pickle", "to_pickle"}:
                found.append(node.attr)
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            refused = isinstance(node.value, ast.Constant) and node.value.value is False
            found += [] if refused else ["allow_pickle"]
    return found


def loads_weights_only(call: ast.Call) -> bool:
    """Whether a call is `torch.load(…, weights_only=True)`."""
    switch = [word.value for word in call.keywords if word.arg == "weights_only"]
    literally = len(switch) == 1 and isinstance(switch[0], ast.Constant) and switch[0].value is True
    return literally and ast.unparse(call.func) == "torch.load"


def registries() -> dict[str, Registry[object]]:
    """Imports every module and returns the registries they define, by kind."""
    found = {}
    for path in MODULES:
        if path.stem == "__main__" or path.stem.endswith("_triton"):  # Triton may be missing
            continue
        dotted = ".".join(("headtail", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for value in vars(importlib.import_module(dotted)).values():
            if isinstance(value, Registry):
                found[value.kind] = value
    return found


@pytest.mark.parametrize("module", [module for module in MODULES if room_of(module) not in ROOF], ids=name_of)
def test_data_flows_one_way(module: Path) -> None:
    room = room_of(module)
    assert room in MAY_IMPORT, f"{room} has no place in the order of rooms; give it one"
    wrong = imported_rooms(tree_of(module)) - MAY_IMPORT[room]
    assert not wrong, f"{name_of(module)} imports {sorted(wrong)}, which is not to the left of {room}"


@pytest.mark.parametrize(
    ("text", "rooms"),
    [
        ("from headtail.nn.norm import x", {"nn"}),
        ("from headtail import datasets", {"datasets"}),
        ("def f():\n    import headtail.cli.app", {"cli"}),
        ("import headtailor.nn", set()),
    ],
)
def test_every_form_of_import_is_seen(text: str, rooms: set[str]) -> None:
    assert imported_rooms(ast.parse(text)) == rooms


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_modules_are_short(module: Path) -> None:
    assert len(module.read_text(encoding="utf-8").splitlines()) <= LONGEST


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_modules_say_their_job(module: Path) -> None:
    assert ast.get_docstring(tree_of(module))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_no_pickle_is_read_or_written(module: Path) -> None:
    assert pickle_uses(tree_of(module)) == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import load",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "torch.load(f, weights_only=safe)",
        "torch.load(torch.load(f), weights_only=True)",
        "load = torch.load",
        "torch.save(x, f)",
        "torch.save(x, f, weights_only=True)",
        "np.load(f, allow_pickle=True)",
        "x.to_pickle(f)",
    ],
)
def test_every_form_of_pickle_is_seen(text: str) -> None:
    assert pickle_uses(ast.parse(text))
    harmless = "np.load(f, allow_pickle=False); json.load(f); torch.load(f, weights_only=True)"
    assert not pickle_uses(ast.parse(harmless))


def test_setting_names_are_unique_and_described() -> None:
    names = [(name, field) for section in SECTIONS.values() for name, field in section.model_fields.items()]
    assert len(names) == len(SECTION_OF)
    assert [name for name, field in names if not field.description] == []
    assert list(Config.model_fields) == list(SECTIONS)
    assert {setting for preset in PRESETS.values() for setting in preset} <= set(SECTION_OF)


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid_and_survive_yaml(preset: str, tmp_path: Path) -> None:
    config = make_config(preset)
    file = tmp_path / "config.yaml"
    file.write_text(config.to_yaml(), encoding="utf-8")
    assert make_config("paper", file) == config
    assert all(getattr(getattr(config, SECTION_OF[name]), name) == value for name, value in PRESETS[preset].items())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epoch": 3}, "unknown setting 'epoch'; did you mean 'epochs'?"),
        ({"epochs": "3"}, "setting 'epochs' cannot be '3'"),
        ({"epochs": 0}, "setting 'epochs' cannot be 0"),
        ({"epochs": True}, "setting 'epochs' cannot be True"),
        ({"blocked": 1.0}, "setting 'blocked' cannot be 1.0"),
        ({"normalisation": "rows"}, "setting 'normalisation' cannot be 'rows'"),
        ({"fanout_output": "every"}, "setting 'fanout_output' cannot be 'every'"),
        ({"fanout_output": 0}, "setting 'fanout_output'"),
        ({"fanout_inner": -1}, "setting 'fanout_inner'"),
        ({"structure": -5}, "setting 'structure'"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_config(settings=settings)
    assert message in str(caught.value)


def test_every_component_has_a_summary() -> None:
    found = registries()
    assert {"encoder", "method", "neighbour sampler", "negatives", "objective", "split"} <= set(found)
    for kind, registry in found.items():
        assert list(registry), f"nothing is registered as {kind}"
        for name, summary in registry.summaries().items():
            assert len(summary) > 10, f"{kind} {name!r} has no docstring"
            assert summary.rstrip(".") != name


def test_a_registry_knows_its_names() -> None:
    registry: Registry[type] = Registry("tool")
    registry.register("saw")(int)
    assert registry.register("hammer")(str) is str
    assert list(registry) == ["hammer", "saw"]
    assert registry["saw"] is int
    assert "saw" in registry
    assert "sow" not in registry
    with pytest.raises(ConfigError, match=r"unknown tool 'sow'; did you mean 'saw'\? Valid: saw, hammer\."):
        registry["sow"]
    with pytest.raises(ValueError, match="registered twice"):
        registry.register("saw")(float)
