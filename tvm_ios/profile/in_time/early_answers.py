"""Answers of a call before its last race, each at least as good as the one before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tvm_ios.compile.model import CompiledModel
from tvm_ios.core.parts import Part
from tvm_ios.onnx.rest import Rest
from tvm_ios.support.progress import PhaseClock

__all__ = ["EarlyAnswers", "FirstAnswer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAnswer:
    """The model that a call has first: sequential order, and library calls where there are any."""

    model: CompiledModel
    link_s: float
    """Seconds that linking its kernels took, about those of linking a file; 0 without a budget."""
    made_s: float
    """Seconds that lowering and loading it took, with what libraries found out meanwhile: at least
    those of another contestant."""
    run_ns: int
    """Nanoseconds of its second run; 0 without a time budget, where nobody asks for it."""


@dataclass(slots=True, kw_only=True)
class EarlyAnswers:
    """Models that a call has so far, and whether anybody wants them."""

    told: bool = False
    """True if the listener of the call gets each of them."""
    needed: bool = False
    """True if the first may have to be the last, as with a time budget."""
    rest: Rest | None = None
    """Nodes that onnxruntime runs after each of them."""
    parts: tuple[Part, ...] = ()
    """Models that the network was joined from."""
    first: FirstAnswer | None = None
    _last: CompiledModel | None = field(default=None, repr=False)

    @property
    def wanted(self) -> bool:
        """True if a first model is to be made as soon as one can be built."""
        return self.told or self.needed

    def whole(self, model: CompiledModel) -> CompiledModel:
        """The model with what is known of the network beside its operators."""
        return model.of_network(self.rest, self.parts)

    def tell(self, model: CompiledModel, what: str, clock: PhaseClock) -> None:
        """Tell the listener of a better model, unless it is the one it has.

        ``what`` says in words what it is, and whether it was measured.
        """
        if not self.told or (self._last is not None and _is_same(self._last, model)):
            return
        self._last = model
        interim = (
            f"{what}: an answer of tune before it ended, which was not raced against other "
            "schedules; the same call with more time goes on from what was measured"
        )
        clock.say(what, model=replace(self.whole(model), interim=interim))


def _is_same(one: CompiledModel, other: CompiledModel) -> bool:
    """True if two models run the same kernels in the same order, on the same lanes."""
    return one.kernels is other.kernels and one.plan == other.plan
