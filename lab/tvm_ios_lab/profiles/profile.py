"""Time of a network, operator by operator, as a contestant's own profiler says it.

Knows no profiler: :mod:`tvm_ios_lab.profiles.profilers` asks them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from tvm_ios_lab.measurement import Measurement
from tvm_ios_lab.peers.errors import PeerError

__all__ = ["Kind", "OperatorTime", "Profile", "kind_of", "read_profiles"]


class Kind(StrEnum):
    """Kind of the first operator of a kernel: what is fused behind it counts with it."""

    TRANSPOSED = "transposed convolution"
    DEPTHWISE = "depthwise"
    CONVOLUTION = "convolution"
    POOLING = "pooling"
    CONCATENATION = "concatenation"
    LAYOUT = "layout"
    PRODUCT = "product"
    OTHER = "elementwise"
    """Sums, activations, and what is none of the others."""


_WORDS = (
    (Kind.TRANSPOSED, ("conv2d_transpose", "convtranspose", "deconvolution", "backpropdata")),
    (Kind.DEPTHWISE, ("depthwise", "_dw_")),
    (Kind.CONVOLUTION, ("conv",)),
    (Kind.POOLING, ("pool", "mean")),
    (Kind.CONCATENATION, ("concat",)),
    (Kind.LAYOUT, ("reorder", "layout_transform", "transpose")),
    (Kind.PRODUCT, ("dense", "matmul", "gemm", "fullyconnected")),
)
"""Words in names of operators, by kind; the first that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorTime:
    """Time of one operator of a contestant's own graph."""

    name: str
    """Name that the contestant gives the operator."""
    code: str
    """The operators, the kernel or the code that it runs, in the contestant's words."""
    kind: Kind
    us: float
    """Least of the runs, in microseconds: what others do on the machine only adds to it."""
    alone_us: float | None = None
    """Microseconds on one thread, taken by turns with the others; None where nobody asked."""

    def lost_us(self, threads: int) -> float:
        """Time that threads add up to beyond what one takes: waiting, and what cutting costs.

        0 where one thread was not asked.
        """
        return 0.0 if self.alone_us is None else threads * self.us - self.alone_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Measurement):
    """Times of a network's operators by a contestant's profiler, in runs of its own."""

    network: str
    batch_size: int
    who: str
    threads: int
    runs: int
    run_us: float
    """Least of whole runs without the profiler."""
    reorder_us: float
    """Microseconds in reorders inside of calls of a library, which count with the operators, too;
    0 where the profiler does not tell."""
    operators: tuple[OperatorTime, ...]

    def kind_us(self, kind: Kind) -> float:
        """Microseconds in all operators of a kind."""
        return sum(operator.us for operator in self.operators if operator.kind is kind)

    @property
    def lost_us(self) -> float:
        """Microseconds that a thread loses in a run, on average, to others being there."""
        return sum(each.lost_us(self.threads) for each in self.operators) / self.threads

    def losses_text(self, count: int = 15) -> str:
        """The operators that lose most by being shared, a line each, after a line on all."""
        alone_us = sum(each.alone_us or 0.0 for each in self.operators)
        lines = [
            f"a thread of {self.threads} loses {self.lost_us / 1e3:.3f} ms; on one thread "
            f"operators take {alone_us / 1e3:.3f} ms"
        ]
        ordered = sorted(self.operators, key=lambda each: -each.lost_us(self.threads))
        lines += [
            f"  {each.name}: {each.alone_us:.1f} us on one thread, {each.us:.1f} on "
            f"{self.threads}; {each.code}"
            for each in ordered[:count]
            if each.alone_us is not None
        ]
        return "\n".join(lines)

    def path(self, folder: Path) -> Path:
        """Path of the profile in a folder of profiles."""
        who = self.who.replace(" ", "-")
        return folder / f"{self.network}_bs{self.batch_size}.{self.threads}.{who}.json"

    def write(self, folder: Path) -> None:
        """Write it into a folder of profiles, in place of an earlier one."""
        folder.mkdir(parents=True, exist_ok=True)
        self.path(folder).write_text(
            json.dumps(asdict(self) | {"processor": self.processor}, indent=1) + "\n"
        )


def kind_of(code: str) -> Kind:
    """The kind of an operator, by the operators, the kernel or the code that it runs.

    Examples
    --------
    >>> kind_of("tvmgen_default_fused_nn_contrib_depthwise_conv2d_NCHWc_add").value
    'depthwise'
    >>> kind_of("Reorder reorder_brgemm_f32").value
    'layout'
    """
    lowered = code.lower()
    for kind, words in _WORDS:
        if any(word in lowered for word in words):
            return kind
    return Kind.OTHER


def read_profiles(folder: Path) -> Sequence[Profile]:
    """Profiles of a folder, by name of file."""
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise PeerError(
            f"no profiles in {folder}; run python -m tvm_ios_lab.profiles.measure first"
        )
    return [_read(path) for path in paths]


def _read(path: Path) -> Profile:
    try:
        data = json.loads(path.read_text())
        operators = tuple(
            OperatorTime(**{**each, "kind": Kind(each["kind"])}) for each in data["operators"]
        )
        # Profiles of before were of a processor only, at no time.
        earlier = {"machine": {"processor": data.pop("processor")}, "taken_at": ""}
        versions = dict(data["versions"])
        return Profile(**earlier | data | {"operators": operators, "versions": versions})
    except (KeyError, TypeError, ValueError) as error:
        again = "remove it, or measure again: python -m tvm_ios_lab.profiles.measure"
        raise PeerError(f"{path} is no profile: {error}; {again}") from error
