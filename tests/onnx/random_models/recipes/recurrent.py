"""Recipe of recurrent layers."""

from __future__ import annotations

from typing import Any

from tests.onnx.random_models.drawing import Drawing, recipe

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_ACTIVATIONS = {
    "LSTM": ("Sigmoid", "Tanh", "Relu"),
    "GRU": ("HardSigmoid", "Softsign"),
    "RNN": ("Relu",),
}


@recipe(*_GATES)
def layer(graph: Drawing) -> None:
    name, gates = graph.op_type, _GATES[graph.op_type]
    length, batch = graph.whole(1, 4), graph.whole(1, 2)
    width, hidden = graph.whole(1, 3), graph.whole(1, 3)
    direction = graph.pick("forward", "reverse", "bidirectional")
    ways = 2 if direction == "bidirectional" else 1
    more: dict[str, Any] = {"clip": 1.5} if graph.chance.random() < 0.3 else {}
    if graph.opset >= 14 and graph.chance.random() < 0.2:
        more["layout"] = 1
    first = [batch, length] if more.get("layout") else [length, batch]
    start = [batch, ways, hidden] if more.get("layout") else [ways, batch, hidden]
    if graph.chance.random() < 0.3:
        more["activations"] = list(_ACTIVATIONS[name]) * ways
    if name == "GRU":
        more["linear_before_reset"] = graph.whole(0, 1)
    if name == "LSTM" and graph.chance.random() < 0.3:
        more["input_forget"] = 1
    inputs = [
        graph.fresh([*first, width]),
        graph.told([ways, gates * hidden, width], low=-1, high=1),
        graph.told([ways, gates * hidden, hidden], low=-1, high=1),
        graph.told([ways, 2 * gates * hidden]) if graph.yes() else "",
        _lengths(graph, length, batch) if graph.yes() else "",
        graph.told(start) if graph.yes() else "",
    ]
    if name == "LSTM":
        inputs.append(graph.told(start) if graph.yes() else "")
        inputs.append(graph.told([ways, 3 * hidden]) if graph.yes() else "")
    outputs = 3 if name == "LSTM" else 2
    graph.add(*inputs, outputs=outputs, hidden_size=hidden, direction=direction, **more)


def _lengths(graph: Drawing, length: int, batch: int) -> str:
    return graph.const([length, graph.whole(1, length)][:batch], "int32")
