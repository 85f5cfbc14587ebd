"""The workloads of Shein and Chrysanthis 2020, section 5.1, and the plans that are made for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

import numpy as np

from panewise.optimize.sharing.costs.weave_costs import CostModel, OperationModel
from panewise.optimize.sharing.edges.edge_counts import Slicing
from panewise.optimize.sharing.weave.loom import Loom
from panewise.optimize.sharing.weave.strands import CadenceColumns, Strand, strands_of
from panewise.optimize.sharing.weave.weaving import Weave, tree_of_all, weave
from panewise.slicing.pairs import Cadence

TECHNIQUES = ("panes", "flat_fat", "flat_fit", "slick_deque_inv", "slick_deque")
OPTIMIZERS = {"weave_share": "WeaveShare", "tri_weave": "TriWeave"}
METHODS = {"f1": "F1", "bit_set": "Bit Set", "residues": "residues", "auto": "ours (auto)"}


@dataclass(frozen=True)
class QueryWorkload:
    """The parameters of table 4; the defaults are the middle point, at which plans are executed."""

    queries: int = 100
    slide_max: int = 1000
    overlap_max: int = 10_000
    rate: float = 1.0
    skew: float = 0.0

    def drawn(self, seed: int) -> CadenceColumns:
        """Slides are factors of the longest, Zipf-distributed: a skew above 0 prefers the long ones.

        A range is the slide times a number from 1 to the greatest overlap.
        """
        random = np.random.default_rng(seed)
        factors = np.array([slide for slide in range(self.slide_max, 0, -1) if self.slide_max % slide == 0], np.int64)
        weights = np.arange(1, len(factors) + 1) ** -self.skew
        slides = random.choice(factors, self.queries, p=weights / weights.sum())
        return CadenceColumns.of_arrays(slides * random.integers(1, self.overlap_max + 1, self.queries), slides)


@dataclass(frozen=True)
class Experiment:
    """One parameter of a workload is varied: experiments 1 to 5."""

    number: int
    title: str
    parameter: str
    values: tuple[float, ...]
    log_x: bool = True

    def workloads(self) -> list[QueryWorkload]:
        changes: list[dict[str, Any]] = [
            {self.parameter: type(getattr(QueryWorkload(), self.parameter))(value)} for value in self.values
        ]
        return [replace(QueryWorkload(), **change) for change in changes]


EXPERIMENTS = (
    Experiment(1, "number of queries", "queries", (1, 10, 100, 1_000, 10_000)),
    Experiment(2, "longest slide", "slide_max", (10, 100, 1_000, 10_000, 100_000)),
    Experiment(3, "greatest overlap", "overlap_max", (100, 1_000, 10_000, 100_000, 1_000_000)),
    Experiment(4, "rows per unit", "rate", (0.01, 0.1, 1.0, 10.0, 100.0)),
    Experiment(5, "skew of slides", "skew", (-1.0, -0.5, 0.0, 0.5, 1.0), log_x=False),
)


@dataclass
class ExperimentCosts:
    """Of every technique and optimizer: the mean cost of plans at each point, and the mean number of their trees."""

    costs: dict[tuple[str, str], list[float]]
    trees: dict[tuple[str, str], list[float]]


def experiment_costs(experiment: Experiment, seeds: int, model: CostModel | None = None) -> ExperimentCosts:
    """Averages over so many random workloads at each point; every technique and optimizer has the same ones."""
    model = model or OperationModel()
    result = ExperimentCosts({}, {})
    for workload in experiment.workloads():
        drawn = [workload.drawn(seed) for seed in range(seeds)]
        for optimizer in OPTIMIZERS:
            for technique in TECHNIQUES:
                plans = [weave(columns, workload.rate, model, [technique], optimizer) for columns in drawn]
                key = technique, optimizer
                result.costs.setdefault(key, []).append(float(np.mean([plan.cost for plan in plans])))
                result.trees.setdefault(key, []).append(float(np.mean([len(plan.trees) for plan in plans])))
    return result


def cost_by(
    model: CostModel, cadences: Sequence[Cadence], plan: Weave, technique: str, optimizer: str, rate: float
) -> float:
    """What a plan costs under a model that did not make it."""
    loom = Loom(model, [technique], 0.0, 0.0, "auto")

    def strands(members: Iterable[int]) -> list[Strand]:
        return strands_of(CadenceColumns.of([cadences[member] for member in members]), Slicing.PAIRS)

    trees = [tree_of_all(loom, strands(tree.members)).cost for tree in plan.trees]
    if optimizer == "weave_share" or len(trees) == 1:
        return model.weave_share(rate, trees)
    return model.tri_weave(rate, tree_of_all(loom, strands(range(len(cadences)))).edge_rate, trees)


def planning_seconds(columns: CadenceColumns, method: str) -> tuple[float, int] | None:
    """Processor seconds of a WeaveShare plan with SlickDeque, and its trees; None where the method does not apply."""
    begin = process_time()
    try:
        plan = weave(columns, 1.0, OperationModel(), ["slick_deque"], "weave_share", method=method)
    except ValueError:
        return None
    return process_time() - begin, len(plan.trees)


def arbitrary(queries: int, seed: int = 0, offsets: bool = False) -> CadenceColumns:
    """Slides from 1 to 1,000 and ranges to 100,000, whether they divide each other or not."""
    random = np.random.default_rng(seed)
    slides = random.integers(1, 1001, queries)
    ranges = random.integers(1, 100_001, queries) if offsets else slides * random.integers(1, 101, queries)
    return CadenceColumns.of_arrays(ranges, slides, random.integers(0, 1000, queries) if offsets else None)
