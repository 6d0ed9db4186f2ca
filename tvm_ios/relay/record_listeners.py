"""Dispatch contexts that note which tuning records TVM asks for, and pass each question on."""

from __future__ import annotations

from typing import Any

from tvm import auto_scheduler, autotvm
from tvm.ir.transform import PassContext

from tvm_ios.relay.context import ANSOR_SWITCH

__all__ = ["AnsorListener", "AutoTvmListener", "may_have_records"]


def may_have_records() -> bool:
    """True if a tuner's records may be in force."""
    templates = autotvm.task.DispatchContext.current
    return not isinstance(templates, autotvm.FallbackContext) or bool(
        PassContext.current().config.get(ANSOR_SWITCH)
    )


class AutoTvmListener(autotvm.task.DispatchContext):  # type: ignore[misc]
    """Listener that notes AutoTVM's lookups, and passes them on to the context around it."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: set[Any] = set()
        self.answered = False

    def query(self, target: Any, workload: Any) -> Any:
        """Configuration that the contexts around it hold; TVM calls this."""
        config = self._old_ctx.query(target, workload)
        self.workloads.add(workload)
        self.answered |= not config.is_fallback
        return config

    def update(self, target: Any, workload: Any, cfg: Any) -> None:
        """Configuration handed on to the context around; TVM calls this."""
        self._old_ctx.update(target, workload, cfg)


class AnsorListener(auto_scheduler.dispatcher.DispatchContext):  # type: ignore[misc]
    """Listener that notes auto_scheduler's lookups of reductions, and passes them on."""

    def __init__(self) -> None:
        super().__init__()
        self.workloads: set[str] = set()
        self.answered = False

    def query(self, target: Any, key: Any, has_complex_op: bool, dag: Any, name: Any) -> Any:
        """Schedule that the contexts around it hold; TVM calls this."""
        state = self._old_ctx.query(target, key, has_complex_op, dag, name)
        if has_complex_op:
            self.workloads.add(str(key))
            self.answered |= state is not None
        return state

    def update(self, target: Any, key: Any, state: Any) -> None:
        """Schedule handed on to the context around; TVM calls this."""
        self._old_ctx.update(target, key, state)
