"""What calls of oneDNN take by how they are cut: ``python -m benchmarks.onednn_parts``.

Convolutions of Inception V3 and ResNet-50 in blocks of 16 channels and in NHWC, transposed ones of
a U-Net and of a text detector in NCHW and in NHWC, products and softmax of BERT, whole and in every
way to part them, on all lanes. The ways of a call run by turns,
again and again with the same tensors; the least time of each goes to
``benchmarks/results/onednn_parts.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

from tvm_ios.host import default_lanes
from tvm_ios.host.machine import machine_facts, version_facts
from tvm_ios.runtime.base.native_runtime import shared_runtime
from tvm_ios.runtime.base.tvm_abi import TvmFunction
from tvm_ios.runtime.cpu.lane_pool import LanePool
from tvm_ios.runtime.libraries.onednn.call import OnednnCall, Primitive, Step, StepKind, Window
from tvm_ios.runtime.libraries.onednn.cuts import candidates
from tvm_ios.runtime.libraries.onednn.device import OnednnProcessor
from tvm_ios.runtime.libraries.onednn.library import OnednnRefusalError
from tvm_ios.runtime.libraries.onednn.matching.attributes import images_of, plain
from tvm_ios.runtime.libraries.onednn.search import least_times_ns
from tvm_ios.runtime.libraries.onednn.tensors import OnednnTensor
from tvm_ios.runtime.libraries.protocol import LibraryLane

RESULT = Path(__file__).parent / "results" / "onednn_parts.json"
PASSES = 5
"""Calls are gone through so often, since others use the machine for seconds on end."""
CONVOLUTIONS = (
    # inputs, outputs, height and width, kernel
    (192, 192, 17, (1, 7)),
    (192, 192, 17, (7, 1)),
    (80, 192, 73, (3, 3)),
    (96, 96, 35, (3, 3)),
    (384, 384, 8, (1, 3)),
    (448, 384, 8, (3, 3)),
    (128, 128, 28, (3, 3)),
    (512, 512, 7, (3, 3)),
    (768, 192, 17, (1, 1)),
    (2048, 320, 8, (1, 1)),
    (64, 256, 56, (1, 1)),
)
TRANSPOSED = (
    (1024, 512, 16),
    (512, 256, 32),
    (256, 128, 64),
    (128, 64, 128),
    (24, 24, 80),
    (24, 1, 160),
)
"""Inputs, outputs, height and width; 2x2 of stride 2."""
PRODUCTS = (
    (8, 2048, 1000),
    (16, 1024, 1000),
    (32, 512, 512),
    (128, 768, 768),
    (128, 768, 3072),
    (128, 3072, 768),
)
"""Rows, inner extent, columns."""
SOFTMAX = (12, 128, 128)


def _convolution(
    layout: str, inputs: int, outputs: int, size: int, kernel: tuple[int, int]
) -> OnednnCall:
    """With bias and ReLU, constant weights, and as large an image as it reads."""
    blocked = layout == "NCHW16c"

    def images(channels: int, position: int | None) -> OnednnTensor:
        blocks = (1, channels // 16, size, size, 16)
        made = images_of(layout, blocks if blocked else (1, size, size, channels), position)
        assert made is not None, "both layouts are formats of oneDNN"
        return made

    blocks = (outputs // 16, inputs // 16, *kernel, 16, 16)
    return OnednnCall(
        primitive=Primitive.CONVOLUTION,
        data=images(inputs, 0),
        weight=OnednnTensor(
            position=1,
            shape=blocks if blocked else (*kernel, inputs, outputs),
            extents=(outputs, inputs, *kernel),
            format="ABcd16b16a" if blocked else "cdba",
            constant=True,
        ),
        bias=plain((outputs,), 2),
        result=images(outputs, None),
        window=Window(
            strides=(1, 1),
            padding=(kernel[0] // 2, kernel[1] // 2) * 2,
            dilation=(1, 1),
        ),
        steps=(Step(kind=StepKind.RELU),),
    )


def _transposed(layout: str, inputs: int, outputs: int, size: int) -> OnednnCall:
    """With bias and ReLU, constant weights."""

    def images(channels: int, size: int, position: int | None) -> OnednnTensor:
        shape = (1, size, size, channels) if layout == "NHWC" else (1, channels, size, size)
        made = images_of(layout, shape, position)
        assert made is not None, "both layouts are formats of oneDNN"
        return made

    return OnednnCall(
        primitive=Primitive.TRANSPOSED,
        data=images(inputs, size, 0),
        weight=OnednnTensor(
            position=1,
            shape=(inputs, outputs, 2, 2),
            extents=(outputs, inputs, 2, 2),
            format="bacd",
            constant=True,
        ),
        bias=plain((outputs,), 2),
        result=images(outputs, 2 * size, None),
        window=Window(strides=(2, 2), padding=(0, 0, 0, 0), dilation=(1, 1)),
        steps=(Step(kind=StepKind.RELU),),
    )


def _product(rows: int, inner: int, columns: int) -> OnednnCall:
    """With bias and constant weights, whose rows are the columns of the result."""
    return OnednnCall(
        primitive=Primitive.PRODUCT,
        data=plain((rows, inner), 0),
        weight=OnednnTensor(
            position=1,
            shape=(columns, inner),
            extents=(inner, columns),
            format="ba",
            constant=True,
        ),
        bias=plain((1, columns), 2),
        result=plain((rows, columns), None),
    )


def _calls() -> Iterator[OnednnCall]:
    for sizes in CONVOLUTIONS:
        for layout in ("NCHW16c", "NHWC"):
            yield _convolution(layout, *sizes)
    for transposed in TRANSPOSED:
        for layout in ("NCHW", "NHWC"):
            yield _transposed(layout, *transposed)
    for product in PRODUCTS:
        yield _product(*product)
    yield OnednnCall(
        primitive=Primitive.SOFTMAX,
        data=plain(SOFTMAX, 0),
        weight=None,
        bias=None,
        result=plain(SOFTMAX, None),
    )


def _times_us(processor: OnednnProcessor, call: OnednnCall, lanes: int) -> dict[str, float]:
    """The least time by parts of images, channels and rows, in microseconds."""
    lane = LibraryLane(
        take_workspace=TvmFunction.TAKE_WORKSPACE.address,
        give_workspace=TvmFunction.GIVE_WORKSPACE.address,
        split_region=shared_runtime().parallel_launch,
    )
    with ExitStack() as undo:
        pool = LanePool(shared_runtime(), lanes)
        undo.callback(pool.close)
        ways = {}
        for counts in candidates(call, lanes):
            with suppress(OnednnRefusalError):
                ways[counts] = processor.prepare(call, counts, "onednn_parts", lane, undo)
        least_ns = least_times_ns(pool, call, ways)
    return {"x".join(map(str, counts)): ns / 1e3 for counts, ns in least_ns.items()}


def main() -> None:
    """Time, write and print."""
    lanes = default_lanes()
    processor = OnednnProcessor(lanes=lanes)
    rows: dict[str, dict[str, float]] = {}
    for _ in range(PASSES):
        for call in _calls():
            row = rows.setdefault(call.as_text(), {})
            for parts, us in _times_us(processor, call, lanes).items():
                row[parts] = round(min(us, row.get(parts, us)), 1)
    processor.close()
    for text, row in rows.items():
        print(text, *(f"{parts}: {us}" for parts, us in row.items()), sep="  ")
    result = {
        "command": "python -m benchmarks.onednn_parts",
        "lanes": lanes,
        "library": processor.as_text(),
        "machine": machine_facts(),
        "versions": version_facts(),
        "parts": "images x channels x rows, microseconds",
        "calls": rows,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
