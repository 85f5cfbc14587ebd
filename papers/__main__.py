"""`python -m papers [NAME] [--quick] [--data FOLDER]`: runs an experiment of a paper; without a name, lists them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from panewise.errors import PanewiseError
from papers.experiments import PAPER_EXPERIMENTS, paper_experiment


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers", description="The papers' experiments.")
    parser.add_argument("name", nargs="?", metavar="NAME", help="this experiment; without a name they are listed")
    parser.add_argument("--quick", action="store_true", help="a small version, as the tests run it")
    parser.add_argument("--data", type=Path, help="the folder with the recorded streams that some experiments need")
    options = parser.parse_args(arguments)
    if options.name is None:
        for name, experiment in PAPER_EXPERIMENTS.items():
            print(f"{name:20} {experiment.what}")
        return 0
    try:
        return paper_experiment(options.name).run(options.quick, options.data)
    except PanewiseError as error:
        from panewise.engine.run.terminal_tables import error_console, error_text

        error_console().print(error_text(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
