"""Steps of an evaluation, what each waits for, and the order in which they are worth doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum

__all__ = ["Case", "Kernels", "Place", "Step", "Work", "agenda"]


class Kernels(StrEnum):
    """Whose kernels the schedules run."""

    UNTUNED = "untuned"
    CUDNN = "cudnn"
    TUNED = "tuned"


class Work(StrEnum):
    """Kind of work that a step does."""

    REFERENCE = "reference"
    """Describe the network, choose inputs, compute in float64."""
    BUILD = "build"
    """Compile the kernels, so that later steps find the device code."""
    SEARCH = "search"
    """Price stages on the GPU and find the schedules."""
    LOWER = "lower"
    """Compile and export every schedule."""
    TORCH = "torch"
    """See what PyTorch can run, and let it compile."""
    OUTPUTS = "outputs"
    """Prove outputs against float64."""
    MEASURE = "measure"
    """Time everything in one interleaved run."""
    TUNE = "tune"
    """Tune kernels with AutoTVM for a while."""


class Place(Enum):
    """Part of the machine that a step needs for itself."""

    CPU = "cpu"
    """Steps on one core each; several run side by side."""
    GPU = "gpu"
    """Steps that need the GPU; CPU steps may run beside them."""
    ALONE = "alone"
    """The GPU and the whole machine."""


_PLACES = {
    Work.REFERENCE: Place.CPU,
    Work.BUILD: Place.CPU,
    Work.LOWER: Place.CPU,
    Work.MEASURE: Place.ALONE,
    Work.TUNE: Place.ALONE,
}
_EXPECTED_S = {
    Work.REFERENCE: 30.0,
    Work.BUILD: 90.0,
    Work.SEARCH: 60.0,
    Work.LOWER: 90.0,
    Work.TORCH: 90.0,
    Work.OUTPUTS: 20.0,
    Work.MEASURE: 30.0,
    Work.TUNE: 40.0,
}
_RESUMING = frozenset({Work.SEARCH, Work.LOWER, Work.TUNE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Network at one batch size."""

    network: str
    batch_size: int = 1

    @property
    def name(self) -> str:
        """Name of the case in names of files."""
        return f"{self.network}_bs{self.batch_size}"

    @property
    def folder(self) -> str:
        """The network, its input and its reference, within the evaluation's folder."""
        return f"cases/{self.name}"

    @property
    def stock(self) -> str:
        """Path of what TVM makes of the network by itself."""
        return f"exported/{self.name}/tvm.so"

    def exported(self, kernels: Kernels) -> str:
        """Our schedules on some kernels, a file each."""
        return f"exported/{self.name}/{kernels.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Process of an evaluation."""

    case: Case
    work: Work
    kernels: tuple[Kernels, ...] = ()
    """Kernels that the step is about; several where it compares."""
    needs: tuple[str, ...] = ()
    """Steps that have to be done."""
    after: tuple[str, ...] = ()
    """Steps that have to be done, skipped or failed: what they made is used where it is there."""
    expected_s: float
    """Seconds of the step before one like it has been seen; of tuning, those it takes to begin."""

    @property
    def name(self) -> str:
        """Name of the step in names of files."""
        about = ["+".join(self.kernels)] if self.kernels else []
        return ".".join([self.case.name, self.work.value, *about])

    @property
    def place(self) -> Place:
        """Part of the machine that the step needs for itself."""
        return _PLACES.get(self.work, Place.GPU)

    @property
    def leaves(self) -> str | None:
        """Path of what later steps need beside the outcome, within the evaluation's folder."""
        if self.work is Work.REFERENCE:
            return self.case.folder
        if self.work is Work.LOWER:
            return self.case.exported(*self.kernels)
        makes_stock = self.work is Work.BUILD and self.kernels == (Kernels.UNTUNED,)
        return self.case.stock if makes_stock else None

    @property
    def resumes(self) -> bool:
        """Whether it goes on where it was cut, by what it has stored."""
        return self.work in _RESUMING


def agenda(
    cases: Sequence[Case], *, tuned: Sequence[Case], proof: bool, torch: bool
) -> tuple[Step, ...]:
    """Steps of an evaluation, the most worthwhile first.

    Untuned and cuDNN kernels come first, of every case; what needs tuning comes last.

    Parameters
    ----------
    cases
        Cases to evaluate, in this order.
    tuned
        Cases that are evaluated with tuned kernels as well.
    proof
        Whether outputs are proved before anything is measured.
    torch
        Whether PyTorch takes part.
    """
    steps: list[Step] = []
    for case in cases:
        steps += _first_steps(case, proof=proof, torch=torch)
    for case in cases:
        if case in tuned:
            steps += _tuned_steps(case, proof=proof, torch=torch)
    return tuple(steps)


def _first_steps(case: Case, *, proof: bool, torch: bool) -> list[Step]:
    steps = [_step(case, Work.REFERENCE)] if proof or torch else []
    for kernels in (Kernels.UNTUNED, Kernels.CUDNN):
        steps += _schedule_steps(case, kernels)
    if torch:
        steps.append(_step(case, Work.TORCH, needs=(_name(case, Work.REFERENCE),)))
    return steps + _compare_steps(case, (Kernels.UNTUNED, Kernels.CUDNN), proof, torch)


def _tuned_steps(case: Case, *, proof: bool, torch: bool) -> list[Step]:
    first = (Kernels.UNTUNED, Kernels.CUDNN)
    tune = _step(
        case,
        Work.TUNE,
        Kernels.TUNED,
        needs=(_name(case, Work.BUILD, Kernels.UNTUNED),),
        after=(_name(case, Work.MEASURE, *first),),
    )
    steps = [tune, *_schedule_steps(case, Kernels.TUNED, needs=(tune.name,))]
    return steps + _compare_steps(case, tuple(Kernels), proof, torch)


def _schedule_steps(case: Case, kernels: Kernels, needs: tuple[str, ...] = ()) -> list[Step]:
    build = _step(case, Work.BUILD, kernels, needs=needs)
    search = _step(case, Work.SEARCH, kernels, needs=(build.name,))
    return [build, search, _step(case, Work.LOWER, kernels, needs=(search.name,))]


def _compare_steps(
    case: Case, kernels: tuple[Kernels, ...], proof: bool, torch: bool
) -> list[Step]:
    base, *others = (_name(case, Work.LOWER, each) for each in kernels)
    steps = []
    if proof:
        needs: tuple[str, ...] = (base, _name(case, Work.REFERENCE))
        if Kernels.TUNED in kernels:
            needs = (*needs, _name(case, Work.LOWER, Kernels.TUNED))
        steps.append(_step(case, Work.OUTPUTS, *kernels, needs=needs, after=tuple(others)))
        needs = (steps[0].name,)
    else:
        needs = (base, _name(case, Work.LOWER, kernels[-1])) if len(kernels) > 2 else (base,)
    after = (*others, *([_name(case, Work.TORCH)] if torch else []))
    return [*steps, _step(case, Work.MEASURE, *kernels, needs=needs, after=after)]


def _step(
    case: Case,
    work: Work,
    *kernels: Kernels,
    needs: tuple[str, ...] = (),
    after: tuple[str, ...] = (),
) -> Step:
    return Step(
        case=case,
        work=work,
        kernels=kernels,
        needs=needs,
        after=after,
        expected_s=_EXPECTED_S[work],
    )


def _name(case: Case, work: Work, *kernels: Kernels) -> str:
    return _step(case, work, *kernels).name
