"""Recipes of spectra, and of windows for them."""

from __future__ import annotations

from typing import Any

from onnx import TensorProto

from tests.onnx.random_models.drawing import Drawing, recipe


@recipe("DFT", since=17)
def fourier(graph: Drawing) -> None:
    shape = [graph.whole(1, 2), graph.whole(3, 6), graph.whole(2, 4)]
    numbers = graph.pick(1, 2)
    axis = graph.whole(1, 2)
    given: dict[str, Any] = {"inverse": 1} if graph.yes() else {}
    if numbers == 1 and not given and graph.yes():
        given = {"onesided": 1}
    length = [graph.const(graph.pick(4, shape[axis]))] if graph.yes() else []
    value = graph.fresh([*shape, numbers])
    if graph.opset < 20:
        graph.add(value, *length, axis=axis, **given)
    else:
        graph.add(value, *(length or [""]), graph.const(axis - graph.pick(0, 4)), **given)


@recipe("STFT", since=17)
def short_fourier(graph: Drawing) -> None:
    frame, step = graph.pick(4, 5, 8), graph.whole(1, 4)
    signal = graph.fresh([graph.whole(1, 2), graph.whole(10, 16), 1])
    window = graph.const(graph.numbers_of([frame], low=0.1), "float32") if graph.yes() else ""
    length = [graph.const(frame)] if not window or graph.yes() else []
    sides = {"onesided": graph.whole(0, 1)} if graph.yes() else {}
    graph.add(signal, graph.const(step), window, *length, **sides)


@recipe("BlackmanWindow", "HammingWindow", "HannWindow", since=17)
def window_of(graph: Drawing) -> None:
    size = graph.whole(3, 9)
    given = {"periodic": graph.whole(0, 1)} if graph.yes() else {}
    given |= {"output_datatype": TensorProto.DOUBLE} if graph.chance.random() < 0.3 else {}
    made = graph.add(graph.const(size), **given)
    if "output_datatype" not in given:
        graph.add(*made, graph.fresh([2, size]), op_type="Mul")


@recipe("MelWeightMatrix", since=17)
def mel_weights(graph: Drawing) -> None:
    counts = [graph.const(each) for each in (graph.whole(3, 6), 16, 8192)]
    edges = [graph.const(each, "float32") for each in (graph.pick(0.0, 50.0), 4000.0)]
    graph.add(*counts, *edges)
