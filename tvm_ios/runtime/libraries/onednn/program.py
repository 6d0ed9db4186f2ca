"""C source that makes a model's calls ready in programs without Python. No TVM here.

Python prepares the calls once and notes every function of oneDNN that they take
(:mod:`~tvm_ios.runtime.libraries.onednn.recording`). C makes the same ones in the same order, and
refuses a oneDNN that answers differently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from ctypes import POINTER, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from types import MappingProxyType

from tvm_ios.runtime.libraries.onednn.call import OnednnCall
from tvm_ios.runtime.libraries.onednn.device import CPU_ENGINE, make_parts
from tvm_ios.runtime.libraries.onednn.library import Onednn
from tvm_ios.runtime.libraries.onednn.native_calls import CALLS_SOURCE
from tvm_ios.runtime.libraries.onednn.primitives import MadePart, PrimitiveMaker
from tvm_ios.runtime.libraries.onednn.recording import (
    EQUAL,
    NAME,
    QUERY_DESCRIPTOR,
    SIZE,
    Handle,
    NotedCall,
    NotedValue,
    RecordedOnednn,
)

__all__ = ["program_source"]

_PROGRAM = Path(__file__).parent / "native" / "onednn_program.h"
_C_TYPES: Mapping[object, str] = MappingProxyType(
    {
        c_void_p: "const void*",
        c_int: "int",
        c_uint: "unsigned",
        c_size_t: "size_t",
        c_float: "float",
        POINTER(c_int64): "const int64_t*",
        POINTER(c_void_p): "void**",
    }
)
_CHECKS: Mapping[str, str] = MappingProxyType(
    {
        SIZE: "is_larger",
        EQUAL: "is_unlike",
        NAME: "is_other_code",
        QUERY_DESCRIPTOR: "is_there",
    }
)
"""Functions of ``onednn_program.h`` that compare oneDNN's answers with the noted ones."""
_STATEMENTS = 100
_RUNS_ON = (
    "dnnl_engine_create",
    "dnnl_stream_create",
    "dnnl_memory_create",
    "dnnl_primitive_create",
)
"""Functions whose objects a model needs while it runs; all other objects go after preparation."""


def program_source(library: Onednn, calls: Sequence[OnednnCall]) -> str:
    """C source of the function that makes calls, and of those that prepare them.

    ``calls`` are the complete ones of a model's launches, in order, each as often as it is made.
    """
    with ExitStack() as undo:
        recorded = RecordedOnednn(library)
        engine = recorded.make("dnnl_engine_create", CPU_ENGINE, 0)
        undo.callback(recorded.call, "dnnl_engine_destroy", engine)
        maker = PrimitiveMaker(recorded, engine, undo.callback)
        made = [_parts_of(maker, call) for call in calls]
        return _Source(recorded, made).text()


def _parts_of(maker: PrimitiveMaker, call: OnednnCall) -> list[MadePart]:
    cut = call.cut
    assert cut is not None, "complete() gives every call one"
    return make_parts(maker, call, (cut.batches, cut.channels, cut.rows), call.as_text())


class _Source:
    """C source as it is written, line by line."""

    def __init__(self, recorded: RecordedOnednn, calls: Sequence[Sequence[MadePart]]) -> None:
        self._recorded = recorded
        self._calls = calls
        self._tables: list[str] = []
        self._filled: list[str] = []
        """Statements that put handles into tables."""
        self._wanted: set[Handle] = set()
        for number, parts in enumerate(calls):
            self._write_parts(number, parts)
        self._noted = recorded.needed_for(self._wanted)

    def text(self) -> str:
        library = self._recorded
        called = {each.function for each in self._noted if each.told is None}
        functions = sorted(called - {QUERY_DESCRIPTOR})
        droppers = sorted({_dropper(each.function) for each in self._noted if _is_made(each)})
        version = f"{json.dumps(library.version.text)}, {json.dumps(library.isa)}"
        count = max((each.gives.number for each in self._noted if each.gives), default=0) + 1
        lines = [
            f'#include "{CALLS_SOURCE.path}"',
            f'#include "{_PROGRAM}"',
            *map(self._declaration, functions),
            *(f"static int (*{name})(void*);" for name in droppers),
            "static const WantedFunction wanted[] = {",
            *(f'{{"{name}", (void**)&{name}}},' for name in (*functions, *droppers)),
            "};",
            f"static void* made[{count}];",
            *self._tables,
            f"static OnednnCall calls[{max(1, len(self._calls))}];",
            *_in_functions("make_all", [*map(self._statement, self._noted), *self._filled]),
            *_in_functions("drop_descriptors", self._dropping(late=False)),
            *_in_functions("drop_all", self._dropping(late=True)),
            "void tvm_ios_close_calls(void) {",
            "drop_descriptors(); drop_all();",
            *self._constants("free(part->constants); part->constants = NULL;"),
            "}",
            "int tvm_ios_open_calls(const CallHost* host, void** resources, char* text,",
            "                       size_t size) {",
            "error_text = text; error_bytes = size;",
            f"if (open_onednn({version}, wanted, sizeof wanted / sizeof *wanted)) return -1;",
            "int before = onednn_functions.get_threads ? onednn_functions.get_threads() : 1;",
            "if (before != 1) onednn_functions.set_threads(1);",
            "int code = make_all();",
            "if (before != 1) onednn_functions.set_threads(before);",
            "drop_descriptors();",
            "if (code) return -1;",
            *self._call_lines(),
            "return 0;",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _write_parts(self, number: int, parts: Sequence[MadePart]) -> None:
        rows = []
        for position, part in enumerate(parts):
            name = f"{number}_{position}"
            primitives = []
            for place, each in enumerate(part.primitives):
                own = f"{name}_{place}"
                self._tables += [
                    _array(
                        "ExecutedArgument",
                        f"arguments_{own}",
                        [f"{{{argument.number}, 0}}" for argument in each.arguments],
                    ),
                    _array(
                        "const int64_t", f"positions_{own}", [a.position for a in each.arguments]
                    ),
                    _array("const int64_t", f"offsets_{own}", [a.offset for a in each.arguments]),
                ]
                primitives.append(
                    f"{{0, 0, arguments_{own}, positions_{own}, offsets_{own}, "
                    f"{len(each.arguments)}}}"
                )
                self._fill(f"primitives_{name}[{place}].primitive", each.handle)
                self._fill(f"primitives_{name}[{place}].stream", each.stream)
                for argument_place, argument in enumerate(each.arguments):
                    self._fill(f"arguments_{own}[{argument_place}].memory", argument.memory)
            self._tables.append(_array("OnednnPrimitive", f"primitives_{name}", primitives))
            rows.append(
                f"{{primitives_{name}, {len(part.primitives)}, {part.once}, "
                f"{part.workspace_bytes}, 0, 0}}"
            )
        self._tables.append(_array("OnednnPart", f"parts_{number}", rows))

    def _fill(self, place: str, address: int) -> None:
        handle = self._recorded.handle(address)
        self._wanted.add(handle)
        self._filled.append(f"{place} = made[{handle.number}];")

    def _declaration(self, name: str) -> str:
        kinds = ", ".join(_C_TYPES[kind] for kind in self._recorded.prototype(name))
        return f"static int (*{name})({kinds});"

    def _statement(self, call: NotedCall) -> str:
        arguments = list(map(_value, call.arguments))
        if call.told is not None:
            asked = ", ".join([*arguments, json.dumps(call.told)])
            return f"if ({_CHECKS[call.function]}({asked})) return chosen_otherwise();"
        if call.gives is not None and call.function != QUERY_DESCRIPTOR:
            arguments.insert(0, f"&made[{call.gives.number}]")
        found = f"{call.function}({', '.join(arguments)})"
        if call.gives is not None and call.function == QUERY_DESCRIPTOR:
            return f"made[{call.gives.number}] = (void*){found};"
        return f'if ((status = {found})) return failed_call("{call.function}", status);'

    def _dropping(self, *, late: bool) -> Iterator[str]:
        for call in reversed(self._noted):
            if call.gives is not None and _is_made(call) and (call.function in _RUNS_ON) == late:
                place = f"made[{call.gives.number}]"
                yield f"if ({place}) {_dropper(call.function)}({place}), {place} = NULL;"

    def _constants(self, statement: str) -> Iterator[str]:
        for number, parts in enumerate(self._calls):
            if any(part.constant_bytes for part in parts):
                yield (
                    f"for (OnednnPart* part = parts_{number}; part < parts_{number} + "
                    f"{len(parts)}; ++part) {{ {statement} }}"
                )

    def _call_lines(self) -> Iterator[str]:
        for number, parts in enumerate(self._calls):
            for position, part in enumerate(parts):
                if part.constant_bytes:
                    place = f"&parts_{number}[{position}], {part.constant_bytes}"
                    yield f"if (take_constants({place})) return -1;"
            yield (
                f"calls[{number}] = (OnednnCall){{&onednn_functions, host->take_workspace, "
                f"host->give_workspace, host->launch, parts_{number}, parts_{number} + 1, "
                f"{len(parts) - 1}, 0, 0}};"
            )
            yield f"resources[{number}] = &calls[{number}];"


def _is_made(call: NotedCall) -> bool:
    """True if the object that a call gives has to be destroyed."""
    return call.gives is not None and call.function != QUERY_DESCRIPTOR


def _dropper(function: str) -> str:
    """Name of the function that destroys a made object, such as ``dnnl_memory_desc_destroy``."""
    if function.endswith("primitive_desc_create"):
        return "dnnl_primitive_desc_destroy"
    return f"{function.partition('_create')[0]}_destroy"


def _in_functions(name: str, statements: Iterable[str]) -> Iterator[str]:
    """Lines of a C function that runs statements, split into functions that compile fast."""
    lines = list(statements)
    begins = range(0, len(lines), _STATEMENTS)
    for begin in begins:
        yield f"static int {name}_{begin}(void) {{ int status = 0; (void)status;"
        yield from lines[begin : begin + _STATEMENTS]
        yield "return 0; }"
    calls = " || ".join(f"{name}_{begin}()" for begin in begins)
    yield f"static int {name}(void) {{ return {calls or '0'}; }}"


def _value(argument: NotedValue) -> str:
    match argument:
        case None:
            return "NULL"
        case Handle(number):
            return f"made[{number}]"
        case tuple():
            return f"(const int64_t[]){{{', '.join(map(str, argument))}}}"
        case float():
            return argument.hex()  # every bit of it
        case _:
            return str(argument)


def _array(kind: str, name: str, values: Sequence[object]) -> str:
    return f"static {kind} {name}[] = {{{', '.join(map(str, values))}}};"
