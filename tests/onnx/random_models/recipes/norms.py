"""Recipes of norms."""

from __future__ import annotations

from tests.onnx.random_models.drawing import Drawing, recipe
from tests.onnx.random_models.recipes.windows import image


def _epsilon(graph: Drawing) -> dict[str, float]:
    return {"epsilon": graph.pick(0.01, 1e-3)} if graph.yes() else {}


@recipe("LRN")
def local_response(graph: Drawing) -> None:
    numbers = {"alpha": 0.1, "beta": 0.6, "bias": 1.5} if graph.yes() else {}
    graph.add(image(graph, graph.pick(1, 2, 2), 4), size=graph.pick(1, 2, 3, 5), **numbers)


@recipe("BatchNormalization")
def batch_norm(graph: Drawing) -> None:
    told = [graph.told([3]) for _ in range(3)]
    graph.add(
        image(graph, graph.whole(0, 3), 3), *told, graph.told([3], low=0.1), **_epsilon(graph)
    )


@recipe("InstanceNormalization")
def instance_norm(graph: Drawing) -> None:
    value = image(graph, graph.whole(1, 3), 3)
    graph.add(value, graph.told([3]), graph.told([3]), **_epsilon(graph))


@recipe("LayerNormalization", since=17)
def layer_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3, most=6))
    shape = graph.shape_of(value)
    axis = graph.axis(3)
    bias = [graph.told(shape[axis % 3 :])] if graph.yes() else []
    outputs = graph.pick(1, 1, 3)
    scale = graph.told(shape[axis % 3 :])
    graph.add(value, scale, *bias, outputs=outputs, axis=axis, **_epsilon(graph))


@recipe("GroupNormalization", since=18)
def group_norm(graph: Drawing) -> None:
    count = 2 if graph.opset < 21 else 4
    value = image(graph, graph.pick(1, 2, 2, 3), 4)
    told = [graph.told([count]), graph.told([count])]
    graph.add(value, *told, num_groups=2, **_epsilon(graph))


@recipe("RMSNormalization", since=23)
def rms_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3))
    axis = graph.axis(3)
    scale = graph.told(graph.shape_of(value)[axis % 3 :])
    graph.add(value, scale, axis=axis, **_epsilon(graph))


@recipe("LpNormalization")
def lp_norm(graph: Drawing) -> None:
    value = graph.fresh(graph.shape(3), graph.pick("float32", "float64"), low=0.5)
    graph.add(value, axis=graph.axis(3), p=graph.whole(1, 2))


@recipe("MeanVarianceNormalization", since=9)
def mean_variance(graph: Drawing) -> None:
    axes = {"axes": graph.pick([0, 2, 3], [2, 3], [1], [-1, -2])} if graph.yes() else {}
    graph.add(image(graph, 2, 3), **axes)
