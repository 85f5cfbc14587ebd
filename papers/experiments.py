"""The experiments by name. Each is a function of a module below `papers`, which is imported when the experiment runs:

    def run(quick: bool, folder: Path | None) -> int

It prints its tables, saves its plots (`plots.save_plot`) and returns the exit code. `folder` holds the data of those
experiments that need some; `quick` is a small version, as tests run it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path

from panewise.errors import PanewiseError, did_you_mean


@dataclass(frozen=True)
class PaperExperiment:
    """What is reproduced, and the module below `papers` with the function that does it."""

    module: str
    what: str
    function: str = "run"

    def run(self, quick: bool, folder: Path | None) -> int:
        module = importlib.import_module(f"papers.{self.module}")
        code: int = getattr(module, self.function)(quick, folder)
        return code


# Sorted by name.
PAPER_EXPERIMENTS: dict[str, PaperExperiment] = {
    "arasu2004": PaperExperiment(
        "arasu2004.figures_9_to_12", "shared aggregates and substream filters: Arasu and Widom 2004, figures 9 to 12"
    ),
    "golab2003": PaperExperiment(
        "golab2003.multiway_joins", "multi-way joins: Golab and Özsu 2003, tables 5 to 8 and figures 2 to 4"
    ),
    "golab2006-ch3": PaperExperiment("golab2006.ch3", "update-pattern-aware plans: Golab 2006, figures 3.8 to 3.15"),
    "golab2006-ch4": PaperExperiment(
        "golab2006.ch4", "rows with lifetimes on disk: Golab 2006, figures 4.4 to 4.8, appendix A"
    ),
    "golab2006-ch4-large": PaperExperiment(
        "golab2006.ch4", "the same at 5 GB: Golab 2006, figures 4.9 to 4.11", function="run_large"
    ),
    "golab2006-ch5": PaperExperiment(
        "golab2006.ch5", "orders and algorithms of joins: Golab 2006, tables 5.3 to 5.6 and figures 5.2 to 5.4"
    ),
    "golab2006-ch6": PaperExperiment("golab2006.ch6", "frequent items: Golab 2006, figure 6.3 (a) to (f)"),
    "golab2006-ch7": PaperExperiment(
        "golab2006.ch7", "isolation of readers from window moves: Golab 2006, figures 7.8 to 7.14"
    ),
    "golab2006-ch8": PaperExperiment(
        "golab2006.ch8", "schedules of periodic queries: Golab 2006, section 8.4.4 and figures 8.7 to 8.10"
    ),
    "patroumpas2011": PaperExperiment(
        "patroumpas2011.figures_10_to_12", "subsumed windows: Patroumpas and Sellis 2011, figures 10 to 12"
    ),
    "shein2020": PaperExperiment(
        "shein2020.experiments_1_to_7", "weaving many queries: Shein and Chrysanthis 2020, experiments 1 to 7"
    ),
}


def paper_experiment(name: str) -> PaperExperiment:
    if name not in PAPER_EXPERIMENTS:
        raise PanewiseError(f"there is no experiment '{name}' of a paper", hint=did_you_mean(name, PAPER_EXPERIMENTS))
    return PAPER_EXPERIMENTS[name]
