"""What a comparison can compare: every method, and the variants of the paper, as settings with a name."""

from dataclasses import dataclass

from headtail import methods
from headtail.errors import ConfigError, did_you_mean
from headtail.presets import METHOD_DEFAULTS, Value

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
    """A method with the settings that make it this variant, and what tables call it."""

    name: str
    label: str
    settings: Settings


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


VARIANTS = _variants()


def variant_named(name: str) -> Variant:
    """Returns a variant; every method is one by its own name.

    Raises:
        ConfigError: there is none of that name, with the nearest ones.
    """
    if name in VARIANTS:
        return VARIANTS[name]
    if name in methods.summaries():
        return Variant(name, name, {"method": name})
    known = [*VARIANTS, *methods.summaries()]
    raise ConfigError(f"unknown method {name!r}; {did_you_mean(name, known)}")


def settings_of(variant: Variant) -> Settings:
    """Returns what the variant's method needs in place of a preset, and what makes it this variant."""
    return {**METHOD_DEFAULTS.get(str(variant.settings["method"]), {}), **variant.settings}
