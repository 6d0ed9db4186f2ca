"""PassContext of TVM's own pipeline: the caller's, or a suitable one where there is none.

A PassContext that the caller has entered is honoured: its level, required and disabled passes,
configuration and instruments. A context is nested in it only to switch something off, and then
without the instruments: TVM would tell them of a second context's end, at which
``PassTimingInstrument`` throws away the profiles it is still writing.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import auto_scheduler, autotvm, relay
from tvm.ir.transform import PassContext

from tvm_ios.cost.array_digest import digest_with_values
from tvm_ios.host.relay_tvm import cached_libinfo
from tvm_ios.kernels.lowering_context import nested_context
from tvm_ios.kernels.vector_math import MATHEMATICS_VERSION
from tvm_ios.relay.gpu_defaults import default_gpu_kernels
from tvm_ios.runtime.base.entered_context import caller_entered_a_context
from tvm_ios.runtime.base.module_attributes import parts_of, rest_of
from tvm_ios.support.error_text import lines_that_tell
from tvm_ios.support.exact_bits import bits_may_change

__all__ = [
    "ANSOR_SWITCH",
    "applied_records_digest",
    "dispatch_contexts",
    "model_digest",
    "offline_tophub",
    "pass_context",
    "quiet_lookups",
    "reason_of",
    "remarks_logged",
    "tvm_pipeline",
    "valued_model_digest",
]

_LOG = logging.getLogger(__name__)

ANSOR_SWITCH = "relay.backend.use_auto_scheduler"
"""Key in a PassContext's configuration that makes TVM compile with Ansor's records."""
TVM_LOGGERS = ("autotvm", "strategy", "te_compiler", "topi")


@contextmanager
def pass_context(
    *,
    opt_level: int = 3,
    disabled: Iterable[str] = (),
    instruments: Iterable[Any] = (),
    config: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Context that is the caller's PassContext, with a few more passes disabled.

    Parameters
    ----------
    opt_level
        Level where the caller has entered no context.
    disabled
        Passes to disable besides the caller's. A pass that the caller requires stays.
    instruments
        Instruments of our own, for a nested context; the caller's do not watch that one.
    config
        Configuration added to the caller's.
    """
    current = PassContext.current()
    entered = caller_entered_a_context()
    required = [str(name) for name in current.required_pass]
    already = [str(name) for name in current.disabled_pass]
    extra = [name for name in disabled if name not in already and name not in required]
    own = list(instruments)
    if entered and not extra and not own and not config:
        with remarks_logged():
            yield
        return
    nested = nested_context(
        config or {},
        disabled=extra,
        instruments=own,
        opt_level=None if entered else opt_level,
    )
    with nested, remarks_logged():
        yield


@contextmanager
def remarks_logged() -> Iterator[None]:
    """Log what TVM warns of while it compiles as our own reasons, at the level INFO.

    Each operator without a tuned kernel has a warning, and prices decide about those here.
    """
    told = [logger for logger in map(logging.getLogger, TVM_LOGGERS) if _log not in logger.filters]
    for logger in told:
        logger.addFilter(_log)
    try:
        yield
    finally:
        for logger in told:
            logger.removeFilter(_log)


def _log(record: logging.LogRecord) -> bool:
    """Whether TVM's own logger goes on with a record."""
    if record.levelno != logging.WARNING:
        return True
    _LOG.info("TVM: %s", record.getMessage())
    return False


@contextmanager
def tvm_pipeline(
    *, opt_level: int = 3, disabled: Iterable[str] = (), instruments: Iterable[Any] = ()
) -> Iterator[None]:
    """Context for TVM's long pipelines; arguments as in :func:`pass_context`."""
    context = pass_context(opt_level=opt_level, disabled=disabled, instruments=instruments)
    with context, offline_tophub(), cached_libinfo(), default_gpu_kernels():
        yield


@contextmanager
def offline_tophub() -> Iterator[None]:
    """Context that keeps TVM from downloading tuning logs, unless the user names a place."""
    if "TOPHUB_LOCATION" in os.environ:
        yield
        return
    os.environ["TOPHUB_LOCATION"] = "NONE"
    try:
        yield
    finally:
        os.environ.pop("TOPHUB_LOCATION", None)


def applied_records_digest() -> str:
    """Digest of the tuning records in force, AutoTVM's and auto_scheduler's; empty without any.

    Code that is compiled later, such as a merged convolution, depends on them.
    """
    parts = []
    for kind in (autotvm.task.DispatchContext, auto_scheduler.dispatcher.DispatchContext):
        for context in dispatch_contexts(kind):
            for key, best in getattr(context, "best_by_targetkey", {}).items():
                parts += _choices(str(key), best)
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16] if parts else ""


def dispatch_contexts(kind: Any) -> Iterator[Any]:
    """Dispatch contexts in force of a kind, the innermost first, TVM's fallback last.

    The kind is ``DispatchContext`` of AutoTVM or of auto_scheduler.
    """
    context = kind.current
    while context is not None:
        yield context
        context = getattr(context, "_old_ctx", None)


def model_digest(mod: tvm.IRModule, params: Mapping[str, Any] | None) -> str:
    """Digest of what a model's kernels depend on: code, shapes of parameters, PassContext.

    Whether bits are exact is part of it, too. Values of parameters do not count, values of
    constants do; equal in every process.
    """
    context = PassContext.current()
    shapes = {name: f"{array.dtype} {array.shape}" for name, array in (params or {}).items()}
    parts = (
        int(tvm.ir.structural_hash(mod)) & (2**64 - 1),
        sorted((str(name), shape) for name, shape in shapes.items()),
        int(context.opt_level),
        *(sorted(map(str, names)) for names in (context.required_pass, context.disabled_pass)),
        sorted((str(name), str(value)) for name, value in context.config.items()),
        f"mathematics {MATHEMATICS_VERSION}" if bits_may_change() else "exact",
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def valued_model_digest(mod: tvm.IRModule, params: Mapping[str, Any] | None) -> str:
    """Digest of what a compiled model depends on: :func:`model_digest`, and all values.

    That is names of inputs, constants, parameters, and the rest that onnxruntime runs. Names inside
    the module do not count, as nothing that is made of it has them.
    """
    weights = {str(name): value for name, value in (params or {}).items()}
    inputs = [f"{each.name_hint}: {each.type_annotation}" for each in mod["main"].params]
    rest = rest_of(mod)
    named = (inputs, rest and rest.to_bytes(), parts_of(mod))
    text = repr((model_digest(mod, params), params is None, named))
    return digest_with_values(text, _constants(mod), weights)


def _constants(mod: tvm.IRModule) -> list[Any]:
    """Arrays of all constants of a module, in an order that follows from its structure."""
    found: list[Any] = []

    def note(expression: relay.Expr) -> None:
        if isinstance(expression, relay.Constant):
            found.append(expression.data)

    for name in sorted(mod.get_global_vars(), key=lambda each: str(each.name_hint)):
        relay.analysis.post_order_visit(mod[name], note)
    return found


def _choices(key: str, best: Any) -> list[str]:
    """Texts of a context's records: AutoTVM has one for each key, auto_scheduler all workloads."""
    if isinstance(best, tuple):
        return [f"{key} {best[0].config}"]
    return [
        f"{key} {kind} {arguments} {cost!r}"
        for kind, entries in best.items()
        for arguments, (_, cost) in entries.items()
    ]


def reason_of(error: BaseException) -> str:
    """Line of a TVM error that says what is wrong; the rest is a trace and a dump."""
    lines = lines_that_tell(error, type(error).__name__)
    telling = [line for line in lines if re.match(r"(\w+(Error|Exception): |Check failed)", line)]
    line = (telling or lines)[-1]
    return line if len(line) <= 300 else f"{line[:300]} …"


@contextmanager
def quiet_lookups() -> Iterator[None]:
    """Context in which AutoTVM and Ansor do not list workloads without records; we count them."""
    logger, scope = logging.getLogger("auto_scheduler"), autotvm.GLOBAL_SCOPE
    level, silent = logger.level, scope.silent
    logger.setLevel(logging.ERROR)
    scope.silent = True
    try:
        yield
    finally:
        logger.setLevel(level)
        scope.silent = silent
