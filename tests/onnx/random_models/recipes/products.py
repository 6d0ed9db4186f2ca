"""Recipes of products of matrices, and what is made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.onnx.random_models.drawing import Drawing, recipe


@recipe("MatMul")
def matmul(graph: Drawing) -> None:
    kinds = ("float32", "float32", "float64", "int32") if graph.opset >= 9 else ("float32",)
    left = graph.value(*kinds, rank=(1, 2, 3, 4))
    shape, dtype = graph.shape_of(left), graph.dtype_of(left)
    batch = graph.broadcast(shape[:-2])
    if graph.chance.random() < 0.2:
        batch = (2, *shape[:-2])
    right = graph.told([*batch, shape[-1], graph.whole(1, 4)], dtype)
    if not batch and graph.yes():
        right = graph.told([shape[-1]], dtype)
    graph.add(left, right)


@recipe("Gemm")
def gemm(graph: Drawing) -> None:
    rows, inner, columns = graph.shape(3)
    left, right = graph.whole(0, 1), graph.whole(0, 1)
    a = graph.fresh([inner, rows] if left else [rows, inner])
    b = graph.told([columns, inner] if right else [inner, columns])
    bias = graph.told(graph.broadcast([rows, columns]))
    optional = [] if graph.opset >= 11 and graph.yes() else [bias]
    factors = {"alpha": 0.5, "beta": 2.0} if graph.yes() else {}
    graph.add(a, b, *optional, transA=left, transB=right, **factors)


_EQUATIONS = (
    ("ij,jk->ik", [2, 3], [3, 4]),
    ("bij,bkj->bik", [2, 3, 4], [2, 5, 4]),
    ("i,i->", [3], [3]),
    ("...ij,...jk->...ik", [2, 2, 3], [2, 3, 4]),
    ("bhqd,bhkd->bhqk", [1, 2, 3, 4], [1, 2, 5, 4]),
    ("ij,jk", [2, 3], [3, 2]),
    ("ij,kl->ijkl", [2, 3], [2, 2]),
    ("ij->ji", [2, 3], None),
    ("ii->i", [3, 3], None),
    ("ijk->j", [2, 3, 4], None),
)


@recipe("Einsum", since=12)
def einsum(graph: Drawing) -> None:
    equation, left, right = graph.pick(*_EQUATIONS)
    values = [graph.fresh(left)] + ([] if right is None else [graph.told(right)])
    graph.add(*values, equation=equation)


@recipe("Det", since=11)
def determinant(graph: Drawing) -> None:
    rows = graph.whole(1, 4)
    graph.add(graph.fresh([*graph.shape(graph.whole(0, 2)), rows, rows]))


@recipe("Attention", since=23)
def attention(graph: Drawing) -> None:
    heads, length, keys, width = graph.pick(2, 4), graph.whole(1, 4), graph.whole(1, 5), 4
    fewer = graph.pick(heads, heads, 2)
    given: dict[str, Any] = {"is_causal": graph.whole(0, 1)} if graph.yes() else {}
    given |= {"scale": 0.3} if graph.yes() else {}
    given |= {"softcap": 2.0} if graph.chance.random() < 0.3 else {}
    if graph.yes():
        query = graph.fresh([2, heads, length, width])
        key, value = (graph.fresh([2, fewer, keys, width]) for _ in range(2))
    else:
        query = graph.fresh([2, length, heads * width])
        key, value = (graph.fresh([2, keys, fewer * width]) for _ in range(2))
        given |= {"q_num_heads": heads, "kv_num_heads": fewer}
    masks = []
    if graph.yes():
        shape = graph.pick([length, keys], [2, 1, length, keys], [1, heads, length, keys])
        masks = [graph.told(shape, graph.pick("float32", "float32", "bool"))]
    graph.add(query, key, value, *masks, **given)


@recipe("RotaryEmbedding", since=23)
def rotary(graph: Drawing) -> None:
    batch, length, heads, width = 2, graph.whole(1, 3), 2, 8
    given: dict[str, Any] = {"interleaved": graph.whole(0, 1)} if graph.yes() else {}
    turned = width
    if graph.chance.random() < 0.3:
        turned = given["rotary_embedding_dim"] = 4
    if graph.yes():
        value = graph.fresh([batch, heads, length, width])
    else:
        value, given["num_heads"] = graph.fresh([batch, length, heads * width]), heads
    if graph.yes():
        tables = [graph.told([6, turned // 2]) for _ in range(2)]
        places = graph.const(graph.numbers.integers(0, 6, [batch, length]))
        graph.add(value, *tables, places, **given)
    else:
        graph.add(value, *(graph.told([batch, length, turned // 2]) for _ in range(2)), **given)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", since=12)
def losses(graph: Drawing) -> None:
    classes, places = graph.whole(2, 4), graph.shape(graph.whole(0, 2))
    batch = graph.whole(1, 3)
    scores = graph.fresh([batch, classes, *places], low=-2, high=2)
    chosen = graph.numbers.integers(0, classes, [batch, *places])
    labels = graph.fresh([batch, *places], "int64")
    graph.inputs[labels] = np.asarray(chosen, "int64")
    weights = [graph.told([classes], low=0.5)] if graph.yes() else []
    given: dict[str, Any] = {"reduction": graph.pick("none", "mean", "sum")} if graph.yes() else {}
    given |= {"ignore_index": graph.pick(0, -1)} if graph.chance.random() < 0.3 else {}
    graph.add(scores, labels, *weights, **given)
