"""The interface of TVM's ``GraphModule`` over a plan: inputs, outputs, runs, whatever runs it."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Self

import tvm
from tvm.runtime.module import BenchmarkResult

from tvm_ios.core.parts import Part, parts_named
from tvm_ios.errors import ExecutionError, OptionError
from tvm_ios.onnx.rest import Rest
from tvm_ios.plan.plan import ExecutionPlan
from tvm_ios.plan.trace import TraceEvent
from tvm_ios.runtime.base.executors import PlanExecutor, RestExecutor
from tvm_ios.runtime.base.input_value import input_value, output_tensor
from tvm_ios.runtime.base.kernel_library import KernelLibrary
from tvm_ios.runtime.base.plan_memory import PlanMemory
from tvm_ios.runtime.base.rest_session import RestSession
from tvm_ios.runtime.base.tvm_names import Array, filled, from_dlpack, in_words
from tvm_ios.support.whole_number import as_whole, require_whole

__all__ = ["PlanModule"]

_FUNCTIONS = (
    "get_input",
    "get_input_index",
    "get_input_info",
    "get_num_inputs",
    "get_num_outputs",
    "get_output",
    "load_params",
    "run",
    "set_input",
    "set_input_zero_copy",
    "set_output_zero_copy",
    "share_params",
)


class PlanModule:
    """The interface of TVM's ``GraphModule`` over a plan, whatever runs it.

    ``params`` are the names of those inputs that are parameters. The executor is closed with the
    module.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        library: KernelLibrary,
        params: Collection[str],
        memory: PlanMemory,
        executor: PlanExecutor,
    ) -> None:
        self.plan = plan
        self.module = library.module
        """TVM's module of the same exported file."""
        self._library = library
        self._params = frozenset(params)
        # Arrays of parameters are the caller's at first, and never written.
        self._shared = set(params)
        self._memory = memory
        self._executor = executor
        self._rest: RestSession | None = None
        self._index = {entry.name: number for number, entry in enumerate(plan.inputs)}
        self._copied: dict[int | str, Any] = {}
        self._readers: dict[str, weakref.WeakSet[PlanModule]] = {}
        """Modules that read the same array, by the name of a shared parameter."""

    def add_rest(self, rest: Rest) -> None:
        """Have onnxruntime run the rest of the model in each run, and outputs be the model's."""
        self._rest = RestSession(rest, lanes=self.plan.lanes)
        self._executor = RestExecutor(self._executor, self._run_rest)

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """Copy values into inputs or parameters.

        Parameters
        ----------
        key, value
            Name or number of one input, and its value.
        params
            Values by name.

        Raises
        ------
        ExecutionError
            If there is no such input, or shape or data type differ.
        """
        for name, array in self._named(key, value, params):
            entry = self.plan.inputs[self._find_input(name)]
            checked = input_value(f"input {entry.name!r}", self.plan.tensors[entry.tensor], array)
            if entry.name in self._shared:
                # Other modules read that array, so this one writes to another.
                self._memory.replace(entry.tensor, self._memory.empty(entry.tensor))
                self._leave(entry.name)
            self._memory.array(entry.tensor).copyfrom(checked)
            # An array that this module lends is written in place: its readers have to hear of it.
            for module in list(self._readers.get(entry.name, (self,))):
                module._written(entry.name)  # noqa: SLF001 - of the same kind

    def set_input_zero_copy(
        self, key: int | str | None = None, value: Any = None, **params: Any
    ) -> None:
        """Let inputs lie in the caller's arrays (NDArray or DLPack), 64-byte aligned on the device.

        A parameter whose array is written to afterwards has to be set again, if only to the same
        array: operator libraries keep what they made of it.

        Raises
        ------
        ExecutionError
            If there is no such input, or its type or place does not fit.
        """
        for name, array in self._named(key, value, params):
            entry = self.plan.inputs[self._find_input(name)]
            self._memory.replace(entry.tensor, _as_ndarray(array, f"input {name!r}"))
            self._leave(entry.name)
            self._written(entry.name)

    def set_output_zero_copy(self, key: int | str, value: Any) -> None:
        """Let an output lie in the caller's array (NDArray, DLPack), 64-byte aligned on the device.

        An output that shares its bytes with an input, a parameter or another output (such as a
        reshape) is copied to the array after each :meth:`run`.

        Raises
        ------
        ExecutionError
            If there is no such output, its type or place does not fit, or onnxruntime runs
            the rest of the model.
        """
        if self._rest is not None:
            raise ExecutionError(
                f"output {key} cannot lie in an array of yours: onnxruntime runs the rest of this "
                "model; use get_output"
            )
        tensor = output_tensor(self.plan, key)
        array = _as_ndarray(value, f"output {key}")
        if self._memory.is_shared(tensor):
            self._memory.require_fit(tensor, array)
            self._copied[key if isinstance(key, str) else int(key)] = array
        else:
            self._memory.replace(tensor, array)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Models that the network was joined from, with their inputs and outputs; mostly none."""
        return self.plan.parts

    def run(self, **input_dict: Any) -> None:
        """Run once, after setting the inputs given.

        Of a network joined from several models, ``parts`` names those that run, one or several;
        outputs of the others stay as they are.

        Raises
        ------
        ExecutionError
            If there is no such input, its shape or data type differ, or a kernel fails.
        OptionError
            If there is no part of a name, or parts cannot run alone on this device.
        """
        executor = self._executor_for(input_dict.pop("parts", None) if self.parts else None)
        for name, value in input_dict.items():
            self.set_input(name, value)  # by name: an input may itself be called key or value
        executor.run()
        for number, array in self._copied.items():
            self.get_output(number, array)

    @property
    def input_names(self) -> tuple[str, ...]:
        """Inputs that are no parameters, in order."""
        return tuple(entry.name for entry in self.plan.inputs if entry.name not in self._params)

    def get_num_outputs(self) -> int:
        """Number of outputs."""
        return len(self.plan.outputs if self._rest is None else self._rest.outputs)

    def get_num_inputs(self) -> int:
        """Number of inputs and parameters."""
        return len(self.plan.inputs)

    def get_input(self, index: int | str, out: Any = None) -> Any:
        """An input or parameter by number or name, copied to `out` if given.

        The array shares its bytes with the module. A parameter that is written to there has to be
        set again, if only to the same array: operator libraries keep what they made of it.

        Raises
        ------
        ExecutionError
            If there is no such input, or `out` is of another shape or data type.
        """
        array = self._memory.array(self.plan.inputs[self._find_input(index)].tensor)
        return array if out is None else _copied(array, out, f"input {index!r}")

    def get_input_index(self, name: str) -> int:
        """Number of the input of this name; -1 if there is none."""
        return self._index.get(name, -1)

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and data types of the inputs, parameters included, by name.

        Truth values are ``bool``, as their arrays are; TVM's module says ``uint1``.
        """
        tensors = {entry.name: self.plan.tensors[entry.tensor] for entry in self.plan.inputs}
        return (
            {name: tensor.shape for name, tensor in tensors.items()},
            {name: tensor.dtype for name, tensor in tensors.items()},
        )

    def get_output(self, index: int | str, out: Any = None) -> Any:
        """An output by number, copied to `out` if given.

        Outputs of a network joined from several models have names, too: that of their part, or
        ``part__0``, ``part__1`` where a part has several.

        Raises
        ------
        ExecutionError
            If there is no such output, or `out` is of another shape or data type.
        """
        if self._rest is None:
            array = self._memory.array(output_tensor(self.plan, index))
        else:
            array = filled(self._rest.output(index))
        return array if out is None else _copied(array, out, f"output {index!r}")

    def debug_get_output(self, node: int | str, out: Any) -> None:  # noqa: ARG002 - TVM's signature
        """Raise ExecutionError: operators overlap, so there is no state after one of them."""
        raise ExecutionError(
            f"debug_get_output({node!r}): operators overlap here, and their buffers are reused; "
            "load the same file with tvm.contrib.debugger.debug_executor"
        )

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Copy parameters from bytes of ``tvm.runtime.save_param_dict``; unknown names are skipped.

        Raises
        ------
        ExecutionError
            If the bytes are something else, or shape or data type of a parameter differ.
        """
        for name, array in _saved_params(params_bytes).items():
            if name in self._index:
                self.set_input(name, array)

    def share_params(self, other: PlanModule, params_bytes: bytes | bytearray) -> None:
        """Use the parameter arrays of another module; only the names in the bytes count.

        Raises
        ------
        ExecutionError
            If the bytes are something else, or the other module lacks a parameter or its type.
        """
        for name in _saved_params(params_bytes):
            if name in self._index:
                self.set_input_zero_copy(name, other.get_input(name))
                self._shared.add(name)
                readers = other._readers.setdefault(name, weakref.WeakSet([other]))
                readers.add(self)
                self._readers[name] = readers

    def benchmark(
        self,
        device: Any = None,  # noqa: ARG002 - TVM's signature
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,  # noqa: ARG002 - TVM's signature
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Times of runs in seconds, one result a repeat, as TVM's method of this name gives them.

        Parameters are those of TVM's method. Inputs are set before; with ``end_to_end``, copying
        them in and outputs out counts, too. ``device`` and ``limit_zero_time_iterations`` are not
        read: no run takes zero time here.

        Raises
        ------
        ExecutionError
            If another function than ``run`` is asked for, or a run fails.
        """
        if func_name != "run":
            raise ExecutionError(f"benchmark of {func_name!r}: only 'run' can be timed")
        repeat = require_whole("repeat", repeat, least=1)
        number = require_whole("number", number, least=1)
        least_ms = require_whole("min_repeat_ms", min_repeat_ms or 0, least=0)
        cooldown_ms = require_whole("cooldown_interval_ms", cooldown_interval_ms, least=0)
        repeats_to_cooldown = require_whole("repeats_to_cooldown", repeats_to_cooldown, least=1)
        self.run(**kwargs)
        executor = self._executor_for(kwargs.get("parts") if self.parts else None)
        timed = partial(self._time_end_to_end, kwargs) if end_to_end else executor.time_ns
        results = []
        for index in range(repeat):
            elapsed_ns = timed(number)
            while elapsed_ns < least_ms * 1_000_000:
                wanted = number * least_ms * 1_000_000 // max(elapsed_ns, 1) + 1
                number = max(wanted, number + 1)
                elapsed_ns = timed(number)
            results.append(elapsed_ns / number / 1e9)
            if cooldown_ms and (index + 1) % repeats_to_cooldown == 0:
                time.sleep(cooldown_ms / 1e3)
        return BenchmarkResult(results)

    def time_ns(self, number: int, *, parts: str | Iterable[str] | None = None) -> int:
        """Elapsed nanoseconds of ``number`` back-to-back runs, a whole number from 1 on.

        ``parts`` are those of :meth:`run`.
        """
        return self._executor_for(parts).time_ns(require_whole("number", number, least=1))

    def trace(
        self, runs: int | None = None, *, parts: str | Iterable[str] | None = None
    ) -> list[TraceEvent]:
        """The launches of the last of several runs, each with its lane or stream and its times.

        Sorted by start time. Where ``runs`` is omitted there are enough runs to warm caches.
        ``parts`` are those of :meth:`run`.
        """
        wanted = None if runs is None else require_whole("runs", runs, least=1)
        return self._executor_for(parts).trace(wanted)

    def close(self) -> None:
        """Give back the executor's threads and memory; later runs raise ExecutionError."""
        self._executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __getitem__(self, key: str) -> Callable[..., Any]:
        """The method of a name, as TVM's module gives its functions; ExecutionError for others."""
        if key not in _FUNCTIONS:
            raise ExecutionError(f"no function {key!r}; there are {', '.join(_FUNCTIONS)}")
        function: Callable[..., Any] = getattr(self, key)
        return function

    def _executor_for(self, parts: str | Iterable[str] | None) -> PlanExecutor:
        """Executor of named parts; that of the whole network where none are named."""
        if parts is None:
            return self._executor
        wanted = parts_named(self.parts, parts)
        if wanted == self.parts:  # side by side, as they were scheduled
            return self._executor
        return self._executor_of(sum(1 << self.parts.index(each) for each in wanted))

    def _executor_of(self, parts: int) -> PlanExecutor:
        """Executor of some parts, by their bits."""
        raise OptionError(
            f"{parts.bit_count()} of {len(self.parts)} parts are to run, but parts run alone on "
            "CPUs only; leave parts out to run the whole network"
        )

    def _run_rest(self) -> None:
        """Run the rest of the model on what the plan has computed."""
        assert self._rest is not None
        self._rest.run(
            lambda number: self._memory.array(output_tensor(self.plan, number)).numpy(),
            lambda name: self._memory.array(self.plan.inputs[self._index[name]].tensor).numpy(),
        )

    def _written(self, name: str) -> None:
        """Take note that an input or parameter has other values, or another array."""

    def _leave(self, name: str) -> None:
        """Take note that an input or parameter left an array that other modules read."""
        self._shared.discard(name)
        if (readers := self._readers.pop(name, None)) is not None:
            readers.discard(self)

    def _time_end_to_end(self, inputs: Mapping[str, Any], number: int) -> int:
        start_ns = time.perf_counter_ns()
        for _ in range(number):
            self.run(**inputs)
            for index in range(self.get_num_outputs()):
                self.get_output(index).numpy()
        return time.perf_counter_ns() - start_ns

    def _named(
        self, key: int | str | None, value: Any, params: Mapping[str, Any]
    ) -> list[tuple[int | str, Any]]:
        if key is None and value is not None:
            raise ExecutionError(
                "a value was given for input None; give the name or the number of the input"
            )
        first: list[tuple[int | str, Any]] = [] if key is None else [(key, value)]
        return first + list(params.items())

    def _find_input(self, key: int | str) -> int:
        number = self._index.get(key) if isinstance(key, str) else as_whole(key)
        if number is None or not 0 <= number < len(self.plan.inputs):
            wanted = self.input_names
            raise ExecutionError(
                f"no input {key!r}; the inputs are {', '.join(map(repr, wanted))}, and there are "
                f"{len(self._params)} parameters"
            )
        return number


def _saved_params(params_bytes: bytes | bytearray) -> dict[str, Any]:
    try:
        return dict(tvm.runtime.load_param_dict(params_bytes))
    except (RuntimeError, TypeError) as error:
        size = f" of {len(params_bytes)} bytes" if isinstance(params_bytes, bytes) else ""
        raise ExecutionError(
            f"the {type(params_bytes).__name__}{size} given holds no parameters; give what "
            "tvm.runtime.save_param_dict wrote"
        ) from error


def _copied(array: Any, out: Any, where: str) -> Any:
    """The caller's array, filled with the values of ours."""
    given = type(out).__name__
    if isinstance(out, Array):
        if (tuple(out.shape), out.dtype) == (tuple(array.shape), array.dtype):
            return array.copyto(out)
        given = f"{out.dtype}{tuple(out.shape)}"
    raise ExecutionError(
        f"{where} is {array.dtype}{tuple(array.shape)}, but out is {given}; "
        + in_words("give a tvm.nd.NDArray of that shape and data type, as tvm.nd.empty makes it")
    )


def _as_ndarray(value: Any, where: str) -> Any:
    if isinstance(value, Array):
        return value
    try:
        return from_dlpack(value)
    except (AttributeError, TypeError, ValueError, RuntimeError, BufferError) as error:
        raise ExecutionError(
            f"{where}: {type(value).__name__} cannot be used without a copy; "
            + in_words("pass a tvm.nd.NDArray, or copy with set_input")
        ) from error
