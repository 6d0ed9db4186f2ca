"""Variants of kernels are told apart by their names, and run by what they are."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from tests.operator_graphs import op
from tvm_ios.core.graph import OperatorGraph
from tvm_ios.core.schedule import Stage
from tvm_ios.cost.profile_key import stage_profile_key
from tvm_ios.profile.kernel_variant import (
    Bytes,
    KernelVariant,
    by_library,
    unsplit,
    with_variants,
)
from tvm_ios.profile.operator_prices import TVM

PLAIN = OperatorGraph("net", (op("a", workload="conv2d-a"), op("b", workload="conv2d-b")))


def test_version_algorithm_and_arithmetic_are_in_the_key_and_the_kernel_of_tvm_is_not() -> None:
    def key(name: str, code: str = "code") -> str:
        whole = with_variants(
            PLAIN,
            [KernelVariant(workload=each.workload, code=code) for each in PLAIN.operators],
        )
        graph = by_library(whole, "cudnn", {0: name})
        makers = [(variant.maker, variant.call) for variant in graph.variants]
        assert makers == [("cudnn", name), (TVM, "")]
        assert graph.operators[1] == whole.operators[1]
        assert stage_profile_key(whole, Stage(((0,),))) != stage_profile_key(graph, Stage(((0,),)))
        return stage_profile_key(graph, Stage(((0,),)))

    names = ["9.10.2-algorithm1", "9.10.2-algorithm6", "9.11.0-algorithm1"]
    names += [f"{name}-tf32" for name in names]
    assert len({key(name) for name in names}) == len(names)
    assert key(names[0]) == key(names[0], "another")


def test_variants_that_differ_have_names_that_differ() -> None:
    variant = KernelVariant(workload="conv2d-a", code="code")
    changes = [
        {},
        {"workload": "conv2d-b"},
        {"code": "other"},
        {"maker": "cudnn", "call": "9"},
        {"maker": "other", "call": "9"},
        {"split": False},
        {"bytes": Bytes.APART},
        {"bytes": Bytes.APART, "split": False},
        {"bytes": Bytes.COPIED},
        {"bytes": Bytes.PIECE},
        {"bytes": Bytes.PIECE, "split": False},
    ]
    variants = [replace(variant, **change) for change in changes]
    for first, second in combinations(variants, 2):
        assert first.name != second.name


def test_names_are_those_that_older_prices_are_kept_under() -> None:
    variant = KernelVariant(workload="w", code="code", split=False)
    assert variant.name == "w@code@one-lane"
    assert replace(variant, bytes=Bytes.COPIED).name == "w@code@one-lane@copied"
    assert replace(variant, bytes=Bytes.APART).name == "w@code@apart@one-lane"
    assert replace(variant, split=True, maker="cudnn", call="9").name == "w@cudnn-9"


def test_operators_are_split_unless_they_are_named() -> None:
    plain = with_variants(
        PLAIN, [KernelVariant(workload=each.workload, alone_ns=7) for each in PLAIN.operators]
    )
    marked = unsplit(plain, [1])
    assert [variant.split for variant in marked.variants] == [True, False]
    assert unsplit(marked, []).variants == plain.variants
    assert [each.name for each in marked.operators] == ["a", "b"]
    timed = unsplit(plain, [], alone_ns=(3, 4))
    assert [variant.alone_ns for variant in timed.variants] == [3, 4]
    assert timed.operators == plain.operators  # no price is stored under a guess
