"""What a comparison can compare: every method, the variants of the paper and of strong, as settings with a name."""

from dataclasses import dataclass

from headtail.config import SECTION_OF, SECTIONS
from headtail.errors import ConfigError, did_you_mean
from headtail.presets import METHOD_DEFAULTS, PRESETS, Value

Settings = dict[str, Value]
ABLATIONS = {"kt": "knowledge_transfer", "delta": "residual", "ho": "homophily", "pe": "pre_encoding"}
SYMBOLS = {"kt": "KT", "delta": "Δ", "ho": "HO", "pe": "PE"}

# What tables call a method that has no variants.
LABELS = {
    "mf": "MF",
    "node2vec": "Node2vec",
    "smlp": "SMLP",
    "cn": "CN",
    "aa": "AA",
    "ra": "RA",
    "jaccard": "Jaccard",
    "pa": "Preferential attachment",
    "katz": "Katz",
    "item2hop": "Item-based 2-hop",
    "popularity": "Popularity",
}


@dataclass(frozen=True)
class Variant:
    """A method with the settings that make it this variant, what tables call it, and the preset that it carries."""

    name: str
    label: str
    settings: Settings
    preset: str | None = None

    @property
    def summary(self) -> str:
        """Says in a line what the variant is."""
        carried = whole_preset(self.preset) if self.preset else {}
        own = {name: value for name, value in self.settings.items() if name not in carried or carried[name] != value}
        start = [f"preset {self.preset}"] if self.preset else []
        return f"{self.label}: {', '.join(start + [f'{name}={value}' for name, value in own.items()])}"


def _variants() -> dict[str, Variant]:
    """Returns the variants of the paper by name."""
    found: list[Variant] = []
    for encoder, letter, suffix in (("sage", "S", ""), ("gat", "G", "-gat")):
        aml: Settings = {"method": "aml", "encoder": encoder}
        symmetric: Settings = {"method": "symmetric", "encoder": encoder}
        found += [
            Variant(f"aml{suffix}", f"AML ({letter})", aml),
            Variant(f"aml-edges{suffix}", f"AML ({letter}, w/o RWS)", aml | {"batches": "edges"}),
            Variant(f"aml-r{suffix}", f"AML-R ({letter})", aml | {"reverse": True}),
            Variant(encoder, encoder.upper(), symmetric | {"batches": "edges"}),
            Variant(f"{encoder}-rws", f"{encoder.upper()} (w/ RWS)", symmetric | {"batches": "rows"}),
        ]
        for part, setting in ABLATIONS.items():
            label = f"AML ({letter}, w/o {SYMBOLS[part]})"
            found.append(Variant(f"aml-no-{part}{suffix}", label, aml | {setting: False}))
    for name, label in (("seal", "SEAL"), ("degnn", "DE-GNN")):
        found.append(Variant(name, label, {"method": name, "batches": "edges"}))
        found.append(Variant(f"{name}-rws", f"{label} (w/ RWS)", {"method": name, "batches": "rows"}))
    found += [Variant(name, label, {"method": name}) for name, label in LABELS.items()]
    return {variant.name: variant for variant in found}


def whole_preset(name: str) -> Settings:
    """Returns a preset with the plain default of every setting that only other presets change.

    A variant of these settings means the same whatever preset the comparison starts from.
    """
    ours = PRESETS[name]
    every = dict.fromkeys(setting for preset in PRESETS.values() for setting in preset)
    return {setting: ours[setting] if setting in ours else _default(setting) for setting in every}


def _default(setting: str) -> Value:
    value = SECTIONS[SECTION_OF[setting]].model_fields[setting].default
    assert isinstance(value, Value)
    return value


def _strong_variants() -> dict[str, Variant]:
    """Returns the presets strong and paper as variants, and strong with one thing changed at a time."""
    strong: Settings = {"method": "aml", **whole_preset("strong")}
    kinds = str(strong["evidence"]).split(",")
    found = [
        Variant("strong", "strong", strong, "strong"),
        Variant("paper", "AML (paper)", {"method": "aml", **whole_preset("paper")}, "paper"),
    ]
    changes: list[tuple[str, str, Settings]] = [("no-evidence", "w/o evidence", {"evidence": "none"})]
    for kind in kinds:
        changes.append((f"no-{kind}", f"w/o {kind}", {"evidence": ",".join(k for k in kinds if k != kind)}))
    changes += [
        ("no-dates", "w/o dates", {"supervision": "all"}),
        ("no-average", "w/o average", {"averaging": 0.0}),
        ("no-gnn", "w/o GNN", {"method": "smlp"}),
        ("two-negatives", "two negatives", {"negatives_per_positive": 2}),
        ("no-folds", "links not hidden", {"folds": 1}),
        ("popular", "popular negatives", {"negatives": "popular"}),
        ("near", "near negatives", {"negatives": "near"}),
    ]
    found += [Variant(f"strong-{name}", f"strong, {label}", strong | own, "strong") for name, label, own in changes]
    return {variant.name: variant for variant in found}


VARIANTS = _variants() | _strong_variants()


def variant_named(name: str) -> Variant:
    """Returns a variant; every method is one by its own name.

    Raises:
        ConfigError: there is none of that name, with the nearest ones.
    """
    if name in VARIANTS:
        return VARIANTS[name]
    # Imported here: variants, which have names of their own, are found without torch.
    from headtail import methods

    if name in methods.summaries():
        return Variant(name, name, {"method": name})
    known = [*VARIANTS, *methods.summaries()]
    raise ConfigError(f"unknown method {name!r}; {did_you_mean(name, known)}")


def settings_of(variant: Variant) -> Settings:
    """Returns what the variant's method needs in place of a preset, and what makes it this variant."""
    return {**METHOD_DEFAULTS.get(str(variant.settings["method"]), {}), **variant.settings}
