"""Recipes of images that are resized, and sampled elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx.random_models.drawing import Drawing, recipe

_PLACES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@recipe("Resize", since=10)
def resize(graph: Drawing) -> None:
    count = graph.pick(1, 2, 2, 2, 3)
    value = graph.fresh([1, 2, *(graph.whole(2, 5) for _ in range(count))])
    mode = graph.pick("nearest", "linear", *(["cubic"] if count == 2 and graph.opset > 10 else []))
    scale = [graph.pick(0.5, 0.7, 1.0, 1.5, 2.0, 3.0) for _ in range(count)]
    size = [graph.whole(1, 7) for _ in range(count)]
    if graph.opset < 11:
        graph.add(value, graph.const([1, 1, *scale], "float32"), mode=mode)
        return
    given = _how(graph, mode)
    few = graph.opset >= 18 and graph.yes()
    if few:
        given["axes"] = list(range(2, count + 2))
    ones = [] if few else [1, 1]
    roi = graph.const(np.zeros(0), "float32") if graph.opset < 13 or graph.yes() else ""
    if given["coordinate_transformation_mode"] == "tf_crop_and_resize":
        size = [graph.pick(7, 8) for _ in size]
        scale = [2.0 if each == 1 else each for each in scale]
        low, high = [0.2] * count, [graph.pick(0.8, 1.3)] * count
        rows = [low, high] if few else [[0, 0, *low], [1, 1, *high]]
        roi = graph.const(np.array(rows).ravel(), "float32")
    if graph.yes():
        none = graph.const(np.zeros(0), "float32") if graph.opset < 13 else ""
        if graph.opset >= 18 and few and graph.yes():
            given["keep_aspect_ratio_policy"] = graph.pick("not_larger", "not_smaller")
        graph.add(value, roi, none, graph.const([*ones, *size]), **given)
    else:
        graph.add(value, roi, graph.const([*ones, *scale], "float32"), **given)


def _how(graph: Drawing, mode: str) -> dict[str, Any]:
    """Attributes that say how places are made of others."""
    places = [*_PLACES, "tf_crop_and_resize"]
    places += ["half_pixel_symmetric"] if graph.opset >= 19 else []
    given: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": graph.pick(*places)}
    if mode == "nearest":
        ways = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
        given["nearest_mode"] = graph.pick(*ways)
    if mode == "cubic" and graph.yes():
        given |= {"cubic_coeff_a": -0.5, "exclude_outside": graph.whole(0, 1)}
    if mode != "nearest" and graph.opset >= 18 and graph.chance.random() < 0.3:
        given["antialias"] = 1
    return given


@recipe("Upsample", until=9)
def upsample(graph: Drawing) -> None:
    mode, scales = graph.pick("nearest", "linear"), [1.0, 1.0, graph.pick(1.5, 2.0), 3.0]
    value = graph.fresh([1, 2, 3, 4])
    if graph.opset >= 9:
        graph.add(value, graph.const(scales, "float32"), mode=mode)
    else:
        graph.add(value, scales=scales, mode=mode)


@recipe("GridSample", since=16)
def grid_sample(graph: Drawing) -> None:
    new = graph.opset >= 20
    count = graph.pick(2, 2, 3) if new else 2
    names = ("nearest", "linear", "cubic") if new else ("nearest", "bilinear", "bicubic")
    mode = graph.pick(*names[: 2 if count == 3 else 3])
    given = {"padding_mode": graph.pick("zeros", "border", "reflection")} if graph.yes() else {}
    value = graph.fresh([2, 2, *(graph.whole(3, 5) for _ in range(count))])
    grid = graph.fresh([2, *(graph.whole(2, 4) for _ in range(count)), count], low=-1.2, high=1.2)
    graph.add(value, grid, mode=mode, align_corners=graph.whole(0, 1), **given)


@recipe("AffineGrid", since=20)
def affine_grid(graph: Drawing) -> None:
    count = graph.whole(2, 3)
    theta = graph.fresh([2, count, count + 1])
    size = graph.const([2, 3, *(graph.whole(2, 4) for _ in range(count))])
    graph.add(theta, size, align_corners=graph.whole(0, 1))
