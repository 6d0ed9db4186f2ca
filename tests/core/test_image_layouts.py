"""Layouts of least cost: against every choice, on small random problems."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.core.image_layouts import (
    BLOCKS,
    CHANNELS_LAST,
    ConvolutionSizes,
    LayoutCosts,
    cheapest_layouts,
)

PRICES = st.integers(0, 40)


def cost_ns(costs: LayoutCosts, layouts: tuple[str, ...]) -> int:
    prices = zip(layouts, costs.blocks_ns, costs.channels_last_ns, strict=True)
    moved = (ns for (one, other), ns in costs.moves_ns.items() if layouts[one] != layouts[other])
    return sum(last if each == CHANNELS_LAST else blocks for each, blocks, last in prices) + sum(
        moved
    )


@st.composite
def problems(draw) -> LayoutCosts:
    prices = draw(st.lists(st.tuples(PRICES, PRICES), min_size=1, max_size=6))
    places = st.integers(0, len(prices) - 1)
    pairs = st.tuples(places, places).filter(lambda pair: pair[0] != pair[1])
    return LayoutCosts(
        blocks_ns=[blocks for blocks, _ in prices],
        channels_last_ns=[last for _, last in prices],
        moves_ns=draw(st.dictionaries(pairs, PRICES, max_size=8)),
    )


@given(problems())
def test_no_other_choice_costs_less(costs):
    found = cheapest_layouts(costs)
    every = product((BLOCKS, CHANNELS_LAST), repeat=len(costs.blocks_ns))
    assert cost_ns(costs, found) == min(cost_ns(costs, each) for each in every)
    assert costs.total_ns(found) == cost_ns(costs, found)


def test_a_network_without_images_has_no_layouts():
    assert cheapest_layouts(LayoutCosts(blocks_ns=[], channels_last_ns=[], moves_ns={})) == ()


def test_a_place_goes_along_where_moves_cost_more_than_it_gains():
    costs = LayoutCosts(
        blocks_ns=[90, 10, 90], channels_last_ns=[10, 20, 10], moves_ns={(0, 1): 6, (1, 2): 6}
    )
    assert cheapest_layouts(costs) == (CHANNELS_LAST,) * 3
    cheap = LayoutCosts(
        blocks_ns=[90, 10, 90], channels_last_ns=[10, 20, 10], moves_ns={(0, 1): 4, (1, 2): 4}
    )
    assert cheapest_layouts(cheap) == (CHANNELS_LAST, BLOCKS, CHANNELS_LAST)


def test_sizes_are_the_same_in_any_layout():
    plain = ConvolutionSizes.read(
        ("NCHW", "OIHW", "NCHW"), [(1, 32, 9, 8), (16, 32, 3, 1), (1, 16, 7, 8)], (1, 1)
    )
    last = ConvolutionSizes.read(
        ("NHWC", "HWIO", "NHWC"), [(1, 9, 8, 32), (3, 1, 32, 16), (1, 7, 8, 16)], (1, 1)
    )
    blocks = ConvolutionSizes.read(
        ("NCHW8c", "OIHW8i8o", "NCHW8c"),
        [(1, 4, 9, 8, 8), (2, 4, 3, 1, 8, 8), (1, 2, 7, 8, 8)],
        (1, 1),
    )
    assert plain is not None
    assert plain == last == blocks
    packed = [(1, 32, 9, 8), (16, 96), (1, 16, 7, 8)]
    assert ConvolutionSizes.read(("NCHW", "OIHW", "NCHW"), packed, (1, 1)) is None
