"""Writes down what tiny trainings give, and a run folder with its answers, for later versions to be compared with.

What stands in tests/data was written by version 0.1.0. Write it again only where numbers are meant to change:

    python scripts/make_golden.py                         the numbers of the trainings
    python scripts/make_golden.py --run                   also the stored run, which is to stay as old as it is

To write what another version gives, put its sources first: PYTHONPATH=THERE/src python scripts/make_golden.py
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import headtail
from golden_runs import ANSWERS, GOLDEN, OLD_RUN, RUNS, answers, figures, machine, old_run


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="also write the stored run and its answers")
    chosen = parser.parse_args()
    GOLDEN.parent.mkdir(exist_ok=True)
    told = {"made_by": machine(), "runs": {name: figures(name) for name in RUNS}}
    GOLDEN.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {GOLDEN} with headtail {headtail.__version__} of {Path(headtail.__file__).parent}")
    if chosen.run:
        shutil.rmtree(OLD_RUN, ignore_errors=True)
        model = old_run()
        model.save(OLD_RUN)
        ANSWERS.write_text(json.dumps(answers(model), indent=1) + "\n", encoding="utf-8")
        print(f"wrote {OLD_RUN} and {ANSWERS}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
