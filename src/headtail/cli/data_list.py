"""`headtail data list`: the data sets that are known by name."""

from headtail.cli.options import Json
from headtail.cli.output import print_json, print_table


def data_list(as_json: Json = False) -> None:
    """List the data sets that can be given by name instead of a file.

    Example:
        headtail data list
        headtail data info planted
    """
    from headtail.datasets.catalog import DATASETS

    summaries = DATASETS.summaries()
    if as_json:
        print_json({"datasets": [{"name": name, "summary": text} for name, text in summaries.items()]})
    else:
        print_table(["name", "what it is"], summaries.items())
