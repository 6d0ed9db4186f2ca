"""Registry of experiments, in the order in which ``tvm-ios experiment all`` runs them."""

from __future__ import annotations

from typing import Any, Final

from tvm_ios.errors import OptionError
from tvm_ios_lab.harness.protocol import Experiment
from tvm_ios_lab.papers.ansor import Ansor
from tvm_ios_lab.papers.ansor_operators import AnsorOperators
from tvm_ios_lab.papers.batch_size import BatchSize
from tvm_ios_lab.papers.batch_specialization import BatchSpecialization
from tvm_ios_lab.papers.counts import Counts
from tvm_ios_lab.papers.device_specialization import DeviceSpecialization
from tvm_ios_lab.papers.frameworks import Frameworks
from tvm_ios_lab.papers.intra_inter import IntraInter
from tvm_ios_lab.papers.pruning import Pruning
from tvm_ios_lab.papers.sample import Sample
from tvm_ios_lab.papers.schedules import Schedules
from tvm_ios_lab.papers.utilization import Utilization

__all__ = ["EXPERIMENTS", "by_name"]

EXPERIMENTS: Final[tuple[Experiment[Any, Any], ...]] = (
    Sample(),
    Counts(),
    Schedules(),
    Pruning(),
    DeviceSpecialization(),
    BatchSpecialization(),
    BatchSize(),
    Utilization(),
    IntraInter(),
    Frameworks(),
    Ansor(),
    AnsorOperators(),
)


def by_name(name: str) -> Experiment[Any, Any]:
    """The experiment of that name; underscores count as hyphens."""
    for experiment in EXPERIMENTS:
        if experiment.name == name.replace("_", "-"):
            return experiment
    names = ", ".join(each.name for each in EXPERIMENTS)
    raise OptionError(f"no experiment named {name!r}; choose one of {names}, or all")
