"""`headtail methods`: what can be trained and compared."""

from headtail.cli.options import Json
from headtail.cli.output import print_json, print_table


def methods(as_json: Json = False) -> None:
    """List the methods that can be trained and compared.

    Example:
        headtail methods
    """
    from headtail import methods as known
    from headtail.experiments.variants import VARIANTS

    summaries = known.summaries()
    rows = list(summaries.items())
    rows += [(name, variant.summary) for name, variant in VARIANTS.items() if name not in summaries]
    if as_json:
        print_json(dict(rows))
    else:
        print_table(["method", "what it is"], rows)
