"""Kernels of a fused module, one by one: lowered by TVM, and taken out of the module.

A function whose kernel is compiled elsewhere is marked ``Extern``: TVM then plans memory and writes
the graph as usual, and expects the kernel under its symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock

import tvm
from tvm import relay
from tvm.ir.transform import PassContext
from tvm.relay.backend import te_compiler

from tvm_ios.kernels.lowered import LoweredKernel
from tvm_ios.kernels.lowering_context import LOWER_PASSES
from tvm_ios.kernels.stored_types import with_stored_types
from tvm_ios.kernels.vector_math import preparing_lowering, with_arithmetic
from tvm_ios.relay.context import remarks_logged
from tvm_ios.relay.dataflow import copy_call, local_function, rebuild, with_body
from tvm_ios.relay.functions.primitive import kernel_digest
from tvm_ios.relay.functions.stored_types import StoredFunction, computed_in_float32
from tvm_ios.relay.obstacles import is_dynamic
from tvm_ios.relay.own_kernels import own_kernel
from tvm_ios.relay.record_listeners import AnsorListener, AutoTvmListener, may_have_records
from tvm_ios.relay.schedules.in_force import own_schedules
from tvm_ios.support.exact_bits import bits_may_change

__all__ = ["absent_symbol", "declare_kernels", "digest_of_call", "empty_compiler", "lower_kernels"]

RESHAPE_ONLY = "relay.reshape_only"
"""Attribute of functions for which TVM runs no kernel."""
NUMBER = re.compile(r"_\d+$")
"""Suffix that TVM adds to a name that it has given before in this process."""

lowering = Lock()
"""Lock for lowering a function and for clearing the memory of TVM's one compiler."""


def lower_kernels(
    calls: Sequence[relay.Call],
    target: tvm.target.Target,
    known: Mapping[str, LoweredKernel] | None = None,
) -> Iterator[tuple[str, LoweredKernel]]:
    """Digests (:func:`kernel_digest`) and lowered kernels of the distinct functions among calls.

    Uses the PassContext and records in force. Left out are functions that TVM has to compile with
    the module around them: those of external code generators, of dynamic shapes, and without
    kernel. ``known`` are kernels lowered before, with the same records and PassContext, by digest.

    For a CPU kernels have :mod:`~tvm_ios.kernels.vector_math`, unless bits are to be exact; what is
    left out calls libm. Instruments and passes of the caller watch and change what stock TVM
    lowers, in which loops with ``erf`` and ``rsqrt`` are not vectorised.
    """
    earlier = known or {}
    on_cpu = target.kind.name == "llvm"
    vectors = on_cpu and bits_may_change()
    # Instruments keep out the context without which TVM fails to build some of our kernels.
    watched = bool(len(PassContext.current().instruments))
    seen: set[str] = set()
    with empty_compiler() as compiler:
        for call in calls:
            function = local_function(call)
            if function is None or not _stands_alone(call, function):
                continue
            digest = kernel_digest(function)
            if digest in seen:
                continue
            seen.add(digest)
            if digest in earlier:
                yield digest, earlier[digest]
                continue
            # Others compile what they are given, such as bfloat16 of the user's own on a GPU.
            plain = StoredFunction(computed=function)
            stored = computed_in_float32(function) if on_cpu else plain
            function = stored.computed
            found = own_kernel(function, target) if vectors and not watched else None
            if found is None or may_have_records():
                templates, ansor = AutoTvmListener(), AnsorListener()
                with _preparing() if vectors else nullcontext(), templates, ansor:
                    by_tvm = _kernel_of_tvm(compiler, function, target)
                has_record = templates.answered or ansor.answered
                found = by_tvm if found is None or has_record else found
            if found is not None:
                stem, code = found
                code = with_arithmetic(code) if vectors else code
                code = with_stored_types(code, stored.arguments, target, results=stored.results)
                yield digest, LoweredKernel(stem, code, digest)


def _kernel_of_tvm(
    compiler: te_compiler.TECompiler, function: relay.Function, target: tvm.target.Target
) -> tuple[str, tvm.tir.PrimFunc] | None:
    """Name and code with a schedule of TVM's; None for parts that call each other by name."""
    # TVM remembers functions, but not the records they were lowered with.
    with lowering, own_schedules(target):
        compiler.clear()
        # lower_to_primfunc would be simpler, and fails on functions with a tuple inside.
        lowered = compiler.lower(function, target, "default")
    if len(lowered.funcs.functions) != 1:
        return None
    stem = NUMBER.sub("", str(lowered.prim_fn_var.name_hint))
    return stem, lowered.funcs[lowered.prim_fn_var]


def _preparing() -> AbstractContextManager[None]:
    """Context to lower kernels for vector mathematics in."""
    context = PassContext.current()
    if len(context.instruments) or LOWER_PASSES in context.config:
        return nullcontext()
    return preparing_lowering()


def digest_of_call(call: relay.Call) -> str:
    """Digest (:func:`kernel_digest`) of the function that a call runs; empty without one."""
    function = local_function(call)
    return "" if function is None else kernel_digest(function)


def absent_symbol(digest: str) -> str:
    """Symbol of a kernel that nobody compiles; TVM names it where it looks for the kernel."""
    return f"left_to_library_{digest}"


def declare_kernels(module: tvm.IRModule, symbols: dict[str, str]) -> tvm.IRModule:
    """Fused, typed module with its kernels declared, not defined.

    ``symbols`` are those of kernels that are compiled elsewhere, or by nobody, by the digest of
    their function.
    """
    declared = {digest: relay.GlobalVar(symbol) for digest, symbol in symbols.items()}
    functions: dict[str, relay.Function] = {}

    def call_declared(call: relay.Call, arguments: list[relay.Expr]) -> relay.Call:
        function = local_function(call)
        digest = "" if function is None else kernel_digest(function)
        if digest not in declared:
            return copy_call(call, arguments)
        functions[digest] = function
        return relay.Call(declared[digest], arguments, call.attrs, span=call.span)

    body = rebuild(module["main"].body, {}, call_declared)
    new = tvm.IRModule(module.functions, module.type_definitions)
    for digest, function in functions.items():
        marked = function.with_attr("Extern", tvm.tir.IntImm("int32", 1))
        new[declared[digest]] = marked.with_attr("global_symbol", symbols[digest])
    return with_body(new, body)


def _stands_alone(call: relay.Call, function: relay.Function) -> bool:
    """True if one function of machine code, and nothing else, computes a call."""
    types = [parameter.checked_type for parameter in function.params]
    return not (
        "Compiler" in function.attrs
        or RESHAPE_ONLY in function.attrs
        or any(map(is_dynamic, (*types, call.checked_type)))
    )


@contextmanager
def empty_compiler() -> Iterator[te_compiler.TECompiler]:
    """Context with TVM's compiler of functions, empty at begin and end.

    It asks no template and no record about a function whose result it remembers.
    """
    compiler = te_compiler.get()
    with lowering:
        compiler.clear()
    try:
        with remarks_logged():
            yield compiler
    finally:
        with lowering:
            compiler.clear()
