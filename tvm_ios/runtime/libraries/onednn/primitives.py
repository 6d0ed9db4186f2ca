"""Primitives of a part of a call: the main one, and reorders where it wants other formats.

Calls that oneDNN computes by its reference code are refused: TVM's kernel is faster then. Where its
code gets bias and steps wrong, another primitive computes them after the main one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind
from tvm_ios.runtime.libraries.onednn.cuts import CallPart
from tvm_ios.runtime.libraries.onednn.library import Onednn, OnednnRefusalError, extents_of
from tvm_ios.runtime.libraries.onednn.numbers import (
    BIAS,
    BINARY,
    ELEMENTWISE,
    FLOAT32,
    FORWARD_INFERENCE,
    IN_ORDER,
    QUERIES,
    QUERY_SCRATCHPAD,
    SCRATCHPAD,
    SECOND_SOURCE,
    SOURCE,
    STRICT,
    TARGET,
    USER_SCRATCHPAD,
    WEIGHTS,
    operand_of,
)
from tvm_ios.runtime.libraries.onednn.operations import description_of
from tvm_ios.runtime.libraries.onednn.tensors import ANY, FORMATS, OnednnTensor, in_order

__all__ = [
    "CONSTANTS",
    "LINE_BYTES",
    "OUTPUT",
    "WORKSPACE",
    "Argument",
    "MadePart",
    "MadePrimitive",
    "PrimitiveMaker",
]

# The numbers are those of the enum in onednn_calls.c.
WORKSPACE, OUTPUT, CONSTANTS = -1, -2, -3
"""Values of :attr:`Argument.position` for memory that is no input of the launch."""
LINE_BYTES = 64
_CHOICES = ((), (WEIGHTS,), (SOURCE, WEIGHTS), (SOURCE, WEIGHTS, TARGET))
"""Arguments whose format oneDNN may choose, the fewest first: each costs a reorder in every run."""
_CHOICES_OF_CONSTANTS = ((WEIGHTS,), (), *_CHOICES[2:])
"""Twin of :data:`_CHOICES` for constant weights, whose reorder costs nothing."""
_ROWS_WORTH_A_COPY = 32
"""Rows of a product from which on a copy of the weights pays: 16 are too few."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a primitive: its number, and the memory it lies in."""

    number: int
    """The ``DNNL_ARG_*`` number of this argument."""
    memory: int
    position: int
    """Position among the inputs of the launch, or :data:`WORKSPACE`, :data:`OUTPUT` or
    :data:`CONSTANTS`."""
    offset: int
    """Bytes from the begin of that input or memory."""


@dataclass(frozen=True, slots=True)
class MadePrimitive:
    """A primitive with all of its arguments."""

    handle: int
    stream: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class MadePart:
    """Primitives of a part, in order, and the workspace they share."""

    primitives: tuple[MadePrimitive, ...]
    once: int
    """Number of leading primitives that only make something of constants."""
    constant_bytes: int
    """Bytes of the part's own memory for what is made of constants."""
    workspace_bytes: int
    implementation: str
    """oneDNN's name of the main primitive's code."""


@dataclass(slots=True)
class _Workspace:
    size_bytes: int = 0

    def take(self, size_bytes: int) -> int:
        """Offset in bytes of a piece of workspace, taken now."""
        begin = self.size_bytes
        self.size_bytes += -(-size_bytes // LINE_BYTES) * LINE_BYTES
        return begin


@dataclass(slots=True)
class _Described:
    """Descriptor of a main primitive, and its memory descriptors."""

    handle: int
    implementation: str
    own: dict[int, int] = field(default_factory=dict)


class PrimitiveMaker:
    """Maker of primitives that run in the thread that executes them.

    ``later`` takes functions, with their arguments, that destroy the primitives at the end.
    """

    def __init__(self, library: Onednn, engine: int, later: Callable[..., object]) -> None:
        self._library = library
        self._engine = engine
        self._later = later

    def make(self, part: CallPart, where: str) -> MadePart:
        """The primitives of a part; ``where`` is the operator or purpose, for messages."""
        with self._library.one_thread():
            given = self._given(part)
            described = self._describe(part.call, given, where)
            if not _takes_steps_early(part.call, described.implementation):
                return self._assemble(part, given, described, where)
            bare, kept = _without_steps(part), (SOURCE, WEIGHTS, TARGET)
            lying = {number: given[number] for number in kept}
            described = self._describe(bare.call, lying, where)
            made = self._assemble(bare, lying, described, where)
            return self._with_steps_after(part, given, made, where)

    def _given(self, part: CallPart) -> dict[int, int]:
        """Memory descriptors of inputs and result as they lie, by argument, in order."""
        call = part.call
        numbers = [SOURCE] if call.weight is None else [SOURCE, WEIGHTS]
        if call.bias is not None:
            numbers.append(BIAS)
        for position, step in enumerate(call.steps):
            if step.operand is not None:
                numbers.append(operand_of(position, step.kind))
        lying = map(self._lying, (*call.inputs, call.result), part.strides)
        return dict(zip((*numbers, TARGET), lying, strict=True))

    def _lying(self, tensor: OnednnTensor, strides: tuple[int, ...] | None) -> int:
        """Memory descriptor of a tensor as it lies, or as it does once it is unpacked."""
        if strides is None:
            return self._tensor(tensor, "ab" if tensor.packed else tensor.format)
        return self._strided(tensor.extents, strides)

    def _strided(self, extents: Sequence[int], strides: Sequence[int]) -> int:
        arrays = extents_of(extents), FLOAT32, extents_of(strides)
        return self._make("memory_desc", "create_with_strides", len(extents), *arrays)

    def _tensor(self, tensor: OnednnTensor, format_: str) -> int:
        extents, number = extents_of(tensor.extents), FORMATS[format_]
        axes = len(tensor.extents)
        return self._make("memory_desc", "create_with_tag", axes, extents, FLOAT32, number)

    def _describe(self, call: OnednnCall, given: dict[int, int], where: str) -> _Described:
        """Descriptor of the fastest kind of code there is, with the fewest reorders."""
        found: _Described | None = None
        tensors = {SOURCE: call.data, WEIGHTS: call.weight, TARGET: call.result}
        alike = [
            operand_of(position, step.kind)
            for position, step in enumerate(call.steps)
            if step.operand is not None and step.operand.extents == call.result.extents
        ]
        constant = call.weight is not None and call.weight.constant
        for free in _CHOICES_OF_CONSTANTS if constant else _CHOICES:
            freed = {n: self._tensor(each, ANY) for n in free if (each := tensors[n]) is not None}
            if TARGET in free:
                # oneDNN's fast code reads an operand of the result's extents as the result lies.
                freed |= dict.fromkeys(alike, freed[TARGET])
            asked = given | freed
            try:
                handle = self._main(call, asked, self._attributes(call, asked), where)
            except OnednnRefusalError:
                continue
            described = _Described(handle, self._library.name_of(handle))
            if _is_reference(described.implementation):
                continue
            for number, query in QUERIES.items():
                described.own[number] = self._library.descriptor_of(handle, query)
            if TARGET in free:
                described.own |= dict.fromkeys(alike, described.own[TARGET])
            if not _copies_too_much(call, described.implementation):
                return described
            found = found or described
        if found is None:
            raise self._refusal(call, where)
        return found

    def _refusal(self, call: OnednnCall, where: str) -> OnednnRefusalError:
        return OnednnRefusalError(
            f"{where}: oneDNN {self._library.version.text} has no fast code for "
            f"{call.as_text()}; compile without onednn=True"
        )

    def _attributes(self, call: OnednnCall, asked: dict[int, int]) -> int:
        made, call_ = self._make("primitive_attr", "create"), self._library.call
        # With scratchpads of oneDNN's own, primitives are not safe to run on several threads.
        call_("dnnl_primitive_attr_set_scratchpad_mode", made, USER_SCRATCHPAD)
        # Else ONEDNN_DEFAULT_FPMATH_MODE may have products rounded to bfloat16.
        call_("dnnl_primitive_attr_set_fpmath_mode", made, STRICT)
        steps = self._make("post_ops", "create")
        for number, step in enumerate(call.steps):
            if step.kind in BINARY:
                operand = asked[operand_of(number, step.kind)]
                call_("dnnl_post_ops_append_binary", steps, BINARY[step.kind], operand)
            elif step.kind is StepKind.PRELU and step.operand is not None:
                call_("dnnl_post_ops_append_prelu", steps, _axes_of(step.operand))
            else:
                kind = ELEMENTWISE[step.kind]
                call_("dnnl_post_ops_append_eltwise", steps, kind, step.alpha, step.beta)
        call_("dnnl_primitive_attr_set_post_ops", made, steps)
        return made

    def _main(self, call: OnednnCall, asked: dict[int, int], attributes: int, where: str) -> int:
        name, arguments = description_of(call, asked)
        made = self._library.make(name, self._engine, *arguments, attributes, where=where)
        self._later(self._library.call, "dnnl_primitive_desc_destroy", made)
        return made

    def _assemble(
        self, part: CallPart, given: dict[int, int], described: _Described, where: str
    ) -> MadePart:
        workspace, constants = _Workspace(), _Workspace()
        once: list[tuple[_Place, _Place]] = []
        before: list[tuple[_Place, _Place]] = []
        after: list[tuple[_Place, _Place]] = []
        stream = self._library.make("dnnl_stream_create", self._engine, IN_ORDER)
        self._later(self._library.call, "dnnl_stream_destroy", stream)
        arguments: list[Argument] = []
        tensors = (*part.call.inputs, part.call.result)
        for (number, lies), tensor, offset in zip(
            given.items(), tensors, part.offsets, strict=True
        ):
            position = OUTPUT if tensor.position is None else tensor.position
            outer, wanted = _Place(lies, position, offset), described.own.get(number, lies)
            if tensor.packed:
                own = tensor.constant and self._library.equal(lies, wanted)
                taken = (constants if own else workspace).take(self._library.size_bytes(lies))
                packed, outer = outer, _Place(lies, CONSTANTS if own else WORKSPACE, taken)
                (once if tensor.constant else before).append(self._unpacked(tensor, packed, outer))
            inner = outer
            if not self._library.equal(lies, wanted):
                kept = CONSTANTS if tensor.constant else WORKSPACE
                taken = (constants if tensor.constant else workspace).take(
                    self._library.size_bytes(wanted)
                )
                inner = _Place(wanted, kept, taken)
                if number == TARGET:
                    after.append((inner, outer))
                else:
                    (once if tensor.constant else before).append((outer, inner))
            arguments.append(self._argument(number, inner))
        arguments += self._scratchpad(described.handle, workspace)
        handle = self._make("primitive", "create", described.handle, where=where)
        main = MadePrimitive(handle, stream, tuple(arguments))
        made = [self._reorder(begin, end, stream, workspace) for begin, end in (*once, *before)]
        made += [main, *(self._reorder(*pair, stream, workspace) for pair in after)]
        return MadePart(
            primitives=tuple(made),
            once=len(once),
            constant_bytes=constants.size_bytes,
            workspace_bytes=workspace.size_bytes,
            implementation=described.implementation,
        )

    def _unpacked(
        self, tensor: OnednnTensor, packed: _Place, plain: _Place
    ) -> tuple[_Place, _Place]:
        """Places of a packed matrix and of its rows, both as blocks, rows and columns of a block.

        A matrix has two axes and oneDNN no format for it; three axes have strides.
        """
        rows, columns = tensor.extents
        block = tensor.block(1)
        extents = (columns // block, rows, block)
        return (
            replace(packed, descriptor=self._strided(extents, (rows * block, block, 1))),
            replace(plain, descriptor=self._strided(extents, (block, columns, 1))),
        )

    def _with_steps_after(
        self, part: CallPart, given: dict[int, int], made: MadePart, where: str
    ) -> MadePart:
        """The part with primitives appended that compute bias and steps in the result.

        oneDNN's fast code takes further steps with a sum or product, but not with a function.
        """
        steps = self._placed_steps(part, given)
        *_, (lies, offset) = zip(given.values(), part.offsets, strict=True)
        result = _Place(lies, OUTPUT, offset)
        workspace = _Workspace(made.workspace_bytes)
        primitives, stream = list(made.primitives), made.primitives[-1].stream
        while steps:
            count = len(steps) if steps[0][0].kind in BINARY else 1
            done = self._pass(part.call, result, steps[:count], stream, workspace, where)
            primitives.append(done)
            steps = steps[count:]
        return replace(made, primitives=tuple(primitives), workspace_bytes=workspace.size_bytes)

    def _placed_steps(
        self, part: CallPart, given: dict[int, int]
    ) -> list[tuple[Step, _Place | None]]:
        """Bias (as a step) and steps, each with its operand, if it has one."""
        call = part.call
        tensors = zip(given.items(), call.inputs, part.offsets, strict=False)
        places = {
            number: _Place(lies, tensor.position or 0, offset)
            for (number, lies), tensor, offset in tensors
        }
        steps = [(step, places.get(operand_of(n, step.kind))) for n, step in enumerate(call.steps)]
        if call.bias is None:
            return steps
        shape = (1, *call.bias.extents, *(1,) * (len(call.result.extents) - 2))
        wide = replace(call.bias, extents=shape, format=in_order(len(shape)))
        place = replace(places[BIAS], descriptor=self._tensor(wide, wide.format))
        return [(Step(kind=StepKind.ADD, operand=wide), place), *steps]

    def _pass(
        self,
        call: OnednnCall,
        result: _Place,
        steps: Sequence[tuple[Step, _Place | None]],
        stream: int,
        workspace: _Workspace,
        where: str,
    ) -> MadePrimitive:
        """Primitive that does steps to the result, in place."""
        (first, operand), *others = steps
        placed = {
            operand_of(n, step.kind): place for n, (step, place) in enumerate(others) if place
        }
        only = replace(call, bias=None, steps=tuple(step for step, _ in others))
        attributes = self._attributes(only, {n: each.descriptor for n, each in placed.items()})
        lies = result.descriptor
        placed |= {SOURCE: result, TARGET: result}
        how: tuple[int | float, ...]
        if operand is None:
            name = "dnnl_eltwise_forward_primitive_desc_create"
            how = (FORWARD_INFERENCE, ELEMENTWISE[first.kind], lies, lies, first.alpha, first.beta)
        elif first.kind in BINARY:
            name = "dnnl_binary_primitive_desc_create"
            how = (BINARY[first.kind], lies, operand.descriptor, lies)
            placed[SECOND_SOURCE] = operand
        else:
            raise self._refusal(call, where)
        described = self._library.make(name, self._engine, *how, attributes, where=where)
        self._later(self._library.call, "dnnl_primitive_desc_destroy", described)
        if _is_reference(self._library.name_of(described)):
            raise self._refusal(call, where)
        arguments = [self._argument(number, place) for number, place in placed.items()]
        arguments += self._scratchpad(described, workspace)
        handle = self._make("primitive", "create", described, where=where)
        return MadePrimitive(handle, stream, tuple(arguments))

    def _reorder(
        self, begin: _Place, end: _Place, stream: int, workspace: _Workspace
    ) -> MadePrimitive:
        attributes = self._make("primitive_attr", "create")
        self._library.call("dnnl_primitive_attr_set_scratchpad_mode", attributes, USER_SCRATCHPAD)
        described = self._library.make(
            "dnnl_reorder_primitive_desc_create",
            begin.descriptor,
            self._engine,
            end.descriptor,
            self._engine,
            attributes,
        )
        self._later(self._library.call, "dnnl_primitive_desc_destroy", described)
        arguments = [self._argument(SOURCE, begin), self._argument(TARGET, end)]
        arguments += self._scratchpad(described, workspace)
        handle = self._make("primitive", "create", described)
        return MadePrimitive(handle, stream, tuple(arguments))

    def _scratchpad(self, described: int, workspace: _Workspace) -> list[Argument]:
        descriptor = self._library.descriptor_of(described, QUERY_SCRATCHPAD)
        size_bytes = self._library.size_bytes(descriptor) if descriptor else 0
        if not size_bytes:
            return []
        place = _Place(descriptor, WORKSPACE, workspace.take(size_bytes))
        return [self._argument(SCRATCHPAD, place)]

    def _argument(self, number: int, place: _Place) -> Argument:
        memory = self._make("memory", "create", place.descriptor, self._engine, None)
        return Argument(number, memory, place.position, place.offset)

    def _make(self, noun: str, verb: str, *arguments: object, where: str = "") -> int:
        """Handle of an object of oneDNN, destroyed later."""
        made = self._library.make(f"dnnl_{noun}_{verb}", *arguments, where=where)
        self._later(self._library.call, f"dnnl_{noun}_destroy", made)
        return made


@dataclass(frozen=True, slots=True)
class _Place:
    descriptor: int
    position: int
    offset: int


def _is_reference(implementation: str) -> bool:
    return "ref" in implementation.replace(":", "_").split("_")


def _without_steps(part: CallPart) -> CallPart:
    """The part with its main primitive alone: data, weights and result."""
    kept = (0, 1, -1)
    return replace(
        part,
        call=replace(part.call, bias=None, steps=()),
        offsets=tuple(part.offsets[place] for place in kept),
        strides=tuple(part.strides[place] for place in kept),
    )


def _takes_steps_early(call: OnednnCall, implementation: str) -> bool:
    """True if bias and steps may be computed of partial sums, which is wrong.

    oneDNN 3.2's code for transposed convolutions with strides does so where the weights of a block
    of output channels outgrow the L2 cache. Kernels of two by two with strides of two, which sum
    nothing up twice, were right at any size.
    """
    if call.weight is None or call.window is None or "brgconv_strided" not in implementation:
        return False
    apart = (call.weight.extents[2:], call.window.strides) == ((2, 2), (2, 2))
    return not apart and bool(call.bias or call.steps)


def _axes_of(tensor: OnednnTensor) -> int:
    """Axes along which a tensor has more than one element, as a bit mask."""
    return sum(1 << axis for axis, extent in enumerate(tensor.extents) if extent > 1)


def _copies_too_much(call: OnednnCall, implementation: str) -> bool:
    """True if a plain product of matrices copies more than code that reads in blocks.

    It copies the windows of a convolution, and the weights of any call in every run; a product
    needs enough rows to pay for that. Then it is faster, most of all where columns lie apart: other
    code writes them together, and a reorder spreads them (note 22 of docs/adr).
    """
    if "gemm" not in implementation.split(":"):  # its place in the name differs: x64:gemm:jit
        return False
    rows = prod(call.result.extents[:-1])
    return call.primitive is not Primitive.PRODUCT or rows < _ROWS_WORTH_A_COPY
