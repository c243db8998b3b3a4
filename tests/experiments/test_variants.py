"""Every variant has a name, a label and settings that mean something."""

from dataclasses import replace

import pytest
from grid_case import plan_of, quiet, tiny_source

from headtail import methods
from headtail.baselines.heuristics import HEURISTICS
from headtail.config import SECTION_OF, Config, make_config
from headtail.errors import ConfigError
from headtail.experiments.grid import run_grid
from headtail.experiments.one_run import run_config
from headtail.experiments.paper import SPECS
from headtail.experiments.published import _FIGURES
from headtail.experiments.variants import VARIANTS, settings_of, variant_named
from headtail.presets import PRESETS

EVERY = sorted({*VARIANTS, *methods.summaries()})
# METHOD 7: what the name of a variant promises.
PROMISES = {
    "aml": {"method": "aml", "encoder": "sage", "batches": "rows", "reverse": False},
    "aml-gat": {"method": "aml", "encoder": "gat", "batches": "rows"},
    "aml-edges": {"method": "aml", "batches": "edges"},
    "aml-r": {"method": "aml", "reverse": True, "encoder": "sage"},
    "aml-r-gat": {"method": "aml", "reverse": True, "encoder": "gat"},
    "aml-no-kt": {"knowledge_transfer": False, "residual": True, "homophily": True, "pre_encoding": True},
    "aml-no-delta": {"knowledge_transfer": True, "residual": False, "homophily": True, "pre_encoding": True},
    "aml-no-ho-gat": {"homophily": False, "residual": True, "encoder": "gat"},
    "aml-no-pe": {"pre_encoding": False, "residual": True},
    "sage": {"method": "symmetric", "encoder": "sage", "batches": "edges"},
    "gat-rws": {"method": "symmetric", "encoder": "gat", "batches": "rows"},
    "smlp": {"method": "smlp", "batches": "rows"},
    "seal": {"method": "seal", "batches": "edges", "hidden": 32},
    "degnn-rws": {"method": "degnn", "batches": "rows"},
    "mf": {"method": "mf", "hidden": 128},
    "item2hop": {"method": "item2hop"},
    "strong-no-evidence": {"method": "aml", "evidence": "none", "supervision": "newest"},
    "strong-no-dates": {"supervision": "all", "folds": PRESETS["strong"]["folds"]},
    "strong-no-average": {"averaging": 0.0, "supervision": "newest"},
    "strong-no-gnn": {"method": "smlp", "supervision": "newest"},
    "strong-two-negatives": {"negatives_per_positive": 2, "negatives": "auto"},
    "strong-no-folds": {"supervision": "newest", "folds": 1},
    "strong-popular": {"negatives": "popular"},
    "strong-near": {"negatives": "near"},
}


def test_what_is_promised_exists() -> None:
    assert set(PROMISES) <= set(EVERY)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", EVERY)
def test_every_variant_is_a_valid_configuration(name: str, preset: str) -> None:
    variant = variant_named(name)
    assert variant.name == name
    config = run_config(variant, preset, {}, {}, seed=3)
    chosen = {setting: getattr(getattr(config, section), setting) for setting, section in SECTION_OF.items()}
    for setting, value in {**settings_of(variant), "seed": 3, **PROMISES.get(name, {})}.items():
        assert chosen[setting] == value, setting
    free = set(PRESETS[preset]) - set(settings_of(variant))
    assert all(chosen[setting] == PRESETS[preset][setting] for setting in free)


def changes(config: Config, base: Config) -> dict[str, object]:
    """Returns the settings in which a configuration is not like another."""
    own, other = config.model_dump(), base.model_dump()
    return {name: own[part][name] for name, part in SECTION_OF.items() if own[part][name] != other[part][name]}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", ["strong", "paper"])
def test_a_preset_as_a_variant_means_the_same_in_every_comparison(name: str, preset: str) -> None:
    assert run_config(variant_named(name), preset, {}, {}, seed=0) == make_config(name)


def test_what_the_user_gives_changes_a_whole_preset_too() -> None:
    config = run_config(variant_named("strong"), "fast", {"epochs": 5}, {"hidden": 4}, seed=0)
    assert changes(config, make_config("strong")) == {"hidden": 4}


@pytest.mark.parametrize("name", [name for name in VARIANTS if name.startswith("strong-")])
def test_ablations_of_strong_change_what_they_say_and_nothing_else(name: str) -> None:
    config = run_config(variant_named(name), "fast", {}, {}, seed=0)
    changed = changes(config, make_config("strong"))
    assert len(changed) == 1
    kinds = str(PRESETS["strong"]["evidence"]).split(",")
    without = name.removeprefix("strong-no-")
    if without in kinds:
        assert sorted([*str(changed["evidence"]).split(","), without]) == sorted(kinds)
    elif name in PROMISES:
        assert changed.items() <= PROMISES[name].items()
    assert VARIANTS[name].summary.startswith(f"{VARIANTS[name].label}: preset strong, ")
    assert all(f"{setting}={value}" in VARIANTS[name].summary for setting, value in changed.items())


def test_strong_can_be_left_without_each_kind_of_evidence() -> None:
    kinds = str(PRESETS["strong"]["evidence"]).split(",")
    assert len(kinds) > 1
    assert {f"strong-no-{kind}" for kind in kinds} <= set(VARIANTS)


def test_labels_are_unique() -> None:
    labels = [variant_named(name).label for name in EVERY]
    assert sorted(labels) == sorted(set(labels))
    assert not any("|" in label for label in labels)


def test_what_tables_name_exists() -> None:
    for spec in SPECS.values():
        assert [variant.name for variant in spec.variants] == list(
            dict.fromkeys(name for part in spec.parts for name in part.methods)
        )
        assert all(part.base in (None, *part.methods) for part in spec.parts)
    assert set(_FIGURES) <= set(VARIANTS)


@pytest.mark.parametrize(
    ("wrong", "near"), [("amll", "aml"), ("sael", "seal"), ("aml-no-k", "aml-no-kt"), ("item2hops", "item2hop")]
)
def test_an_unknown_method_is_told_with_the_nearest_first(wrong: str, near: str) -> None:
    with pytest.raises(ConfigError) as caught:
        variant_named(wrong)
    message = str(caught.value)
    assert message.startswith(f"unknown method {wrong!r}; did you mean {near!r}? Valid: {near}, ")
    assert set(message.partition("Valid: ")[2].rstrip(".").split(", ")) == set(EVERY)


@pytest.mark.slow
def test_every_method_can_be_compared(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("every")
    plan = plan_of([tiny_source(folder)], EVERY, epochs=1, links_per_batch=128, evaluate_every=1)
    again = [run.variant.name for run in replace(plan, repeats=2).runs() if run.config.training.seed == 1]
    found = {run.method: run for run in run_grid(plan, folder / "results.jsonl", quiet())}
    assert sorted(found) == sorted(EVERY)
    for name, run in found.items():
        once = str(variant_named(name).settings["method"]) in HEURISTICS
        assert (name in again) != once
        assert 0 < run.test <= 1, name
        assert 0 < run.valid <= 1, name
        assert (run.epochs, run.links > 0) == ((0, False) if once else (1, True)), name
