"""The search against the golden files and the published tables, exactly."""

from __future__ import annotations

import pytest

from tvm_ios.core.schedule import Strategy
from tvm_ios.core.verify import verify_schedule
from tvm_ios.search.baselines import greedy_schedule, sequential_schedule
from tvm_ios.search.ios import search_ios
from tvm_ios.search.options import EndingRule, SearchOptions

RULES = {"paper": EndingRule.COMPLETE, "master": EndingRule.PUBLISHED}
MODES = {"parallel": frozenset({Strategy.CONCURRENT}), "both": frozenset(Strategy)}
LIMITS = ((0, 0), (3, 8), (2, 8), (1, 8), (3, 3), (2, 3), (1, 3))


def _options(mode, rule, r=0, s=0, **more):
    return SearchOptions(
        strategies=MODES[mode],
        endings=RULES[rule],
        max_group_size=r,
        max_num_groups=s,
        centred_merges=True,
        **more,
    )


def _check_expectations(golden, one_block, network, lazy, largest):
    data, problem = golden[network]
    for part, recorded in zip(data["parts"], problem.parts, strict=True):
        if part["n"] > largest:
            continue
        for expected in part["expect"]:
            options = _options(expected["mode"], expected["rule"], expected["r"], expected["s"])
            found = search_ios(
                recorded.graph,
                recorded.cost_model,
                options,
                lazy=lazy,
                partition=one_block(recorded.graph),
            )
            assert found.latency_ns == expected["cost"]
            assert found.states == expected["states"]
            assert found.transitions == expected["transitions_without_size1_merge"]
            assert found.distinct_stages == expected["distinct_stages"]
            assert found.priced <= found.distinct_stages
            assert lazy or found.priced == found.distinct_stages
            stages = found.schedule.stages
            assert sum(recorded.cost_model.price(recorded.graph, stages)) == expected["cost"]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("network", ["inception_v3", "squeezenet"])
def test_every_golden_expectation(golden, one_block, network, lazy):
    _check_expectations(golden, one_block, network, lazy, largest=99)


@pytest.mark.parametrize("lazy", [False, True])
def test_small_randwire_expectations(golden, one_block, lazy):
    _check_expectations(golden, one_block, "randwire", lazy, largest=17)


@pytest.mark.slow
@pytest.mark.parametrize("lazy", [pytest.param(False, marks=pytest.mark.full), True])
def test_every_randwire_expectation(golden, one_block, lazy):
    _check_expectations(golden, one_block, "randwire", lazy, largest=99)


@pytest.mark.parametrize("network", ["inception_v3", "squeezenet", "randwire"])
def test_golden_baselines(golden, network):
    data, problem = golden[network]
    for number, (part, recorded) in enumerate(zip(data["parts"], problem.parts, strict=True)):
        graph, model = recorded.graph, recorded.cost_model
        sequential = sequential_schedule(graph)
        greedy = greedy_schedule(graph)
        verify_schedule(sequential, graph, max_group_size=1, max_num_groups=1)
        verify_schedule(greedy, graph, max_group_size=1, max_num_groups=10)
        assert sum(model.price(graph, sequential.stages)) == data["sequential_cost"][number]
        assert sum(model.price(graph, greedy.stages)) == data["greedy_cost"][number]
        position = {name: index for index, name in enumerate(part["names"])}
        published = [
            sorted(position[node] for group in stage for node in group)
            for stage in data["greedy_stages"][number]
        ]
        assert [list(stage.operators) for stage in greedy.stages] == published


TOTALS = [
    ("inception_v3", "merge", 3, 8, 2521231),
    ("inception_v3", "parallel", 3, 8, 1732947),
    ("inception_v3", "both", 3, 8, 1731154),
    ("inception_v3", "parallel", 2, 8, 1790241),
    ("inception_v3", "parallel", 1, 8, 1915020),
    ("inception_v3", "parallel", 3, 3, 1815461),
    ("inception_v3", "parallel", 2, 3, 1834230),
    ("inception_v3", "parallel", 1, 3, 1953396),
    ("inception_v3", "both", 2, 8, 1743861),
    ("inception_v3", "both", 1, 8, 1848370),
    ("inception_v3", "both", 3, 3, 1734446),
    ("inception_v3", "both", 2, 3, 1746500),
    ("inception_v3", "both", 1, 3, 1859149),
    ("squeezenet", "merge", 3, 8, 435400),
    ("squeezenet", "parallel", 3, 8, 447765),
    ("squeezenet", "both", 3, 8, 428282),
]


@pytest.mark.parametrize(("network", "mode", "r", "s", "total"), TOTALS)
def test_totals_of_the_reference(golden, one_block, network, mode, r, s, total):
    _, problem = golden[network]
    strategies = MODES.get(mode, frozenset({Strategy.MERGE}))
    options = SearchOptions(
        strategies=strategies, max_group_size=r, max_num_groups=s, centred_merges=True
    )
    assert total == sum(
        search_ios(part.graph, part.cost_model, options, partition=one_block(part.graph)).latency_ns
        for part in problem.parts
    )


# (transitions, schedules) by LIMITS for the published rule, then the complete one unpruned, r3 s8.
INCEPTION_E = [
    (4871, 3757392),
    (4616, 3727132),
    (3571, 3404004),
    (1966, 895111),
    (4037, 3659458),
    (3139, 3340568),
    (1770, 873949),
    (5040, 4410136),
    (4631, 4226508),
]
INCEPTION_C = [
    (3648, 4598400),
    (3104, 4448840),
    (2291, 3538508),
    (1012, 447249),
    (2888, 4416704),
    (2156, 3513295),
    (982, 444039),
    (3780, 5243136),
    (3110, 4846536),
]
FIRE = [
    (51, 131),
    (47, 126),
    (42, 101),
    (28, 25),
    (47, 126),
    (42, 101),
    (28, 25),
    (60, 152),
    (51, 138),
]


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("network", "part", "states", "rows"),
    [
        ("squeezenet", 1, 12, FIRE),
        ("inception_v3", 10, 180, INCEPTION_E),
        ("inception_v3", 5, 144, INCEPTION_C),
    ],
)
def test_counts_of_table_1(golden, one_block, network, part, states, rows, native):
    recorded = golden[network][1].parts[part]
    cases = [("master", r, s) for r, s in LIMITS] + [("paper", 0, 0), ("paper", 3, 8)]
    for (rule, r, s), row in zip(cases, rows, strict=True):
        options = _options("parallel", rule, r, s, native=native)
        found = search_ios(
            recorded.graph, recorded.cost_model, options, partition=one_block(recorded.graph)
        )
        assert found.states == states
        assert (found.transitions, found.num_schedules) == row


# Three significant digits where the table has no more: (transitions, schedules).
NASNET = {
    1: (1287, [(110763, "1.84e+12"), (84782, "1.779e+12"), (70108, "1.435e+12"),
               (30329, "1.506e+11"), (57815, "1.721e+12"), (47503, "1.387e+12"),
               (23341, "1.449e+11"), (158976, "2.216e+12"), (89711, "2.025e+12")]),
    2: (1387, [(133814, "8.319e+13"), (89407, "7.818e+13"), (72528, "5.583e+13"),
               (31599, "3.327e+12"), (61822, "7.579e+13"), (49593, "5.406e+13"),
               (24459, "3.206e+12"), (208575, "1.069e+14"), (94511, "9.32e+13")]),
    3: (2200, [(307841, "7.151e+12"), (233842, "6.972e+12"), (220169, "5.878e+12"),
               (86396, "9.064e+11"), (124303, "6.653e+12"), (113789, "5.602e+12"),
               (56448, "8.579e+11"), (335331, "8.839e+12"), (234533, "8.17e+12")]),
    4: (2071, [(258676, "4.145e+11"), (229695, "4.089e+11"), (218401, "3.653e+11"),
               (84709, "7.112e+10"), (118986, "3.897e+11"), (111454, "3.478e+11"),
               (54929, "6.724e+10"), (260731, "4.851e+11"), (229723, "4.602e+11")]),
    9: (1312, [(118081, "5.894e+12"), (86682, "5.659e+12"), (70923, "4.348e+12"),
               (30578, "3.406e+11"), (59472, "5.479e+12"), (48219, "4.205e+12"),
               (23571, "3.277e+11"), (171142, "7.091e+12"), (91611, "6.436e+12")]),
}  # fmt: skip


@pytest.mark.parametrize(
    "part",
    [pytest.param(each, marks=pytest.mark.full) if each in (2, 4) else each for each in NASNET],
)
@pytest.mark.slow
def test_nasnet_counts(nasnet, one_block, part):
    states, rows = NASNET[part]
    graph, model = nasnet.graph(part)
    cases = [("master", r, s) for r, s in LIMITS] + [("paper", 0, 0), ("paper", 3, 8)]
    for (rule, r, s), (transitions, schedules) in zip(cases, rows, strict=True):
        options = _options("parallel", rule, r, s)
        found = search_ios(graph, model, options, partition=one_block(graph))
        assert (found.states, found.transitions) == (states, transitions)
        assert f"{found.num_schedules:.4g}" == schedules


def test_nasnet_first_cell_schedules(nasnet, one_block):
    graph, model = nasnet.graph(3)
    for rule, schedules in (("master", 7150961274600), ("paper", 8839301008800)):
        options = _options("parallel", rule)
        found = search_ios(graph, model, options, partition=one_block(graph))
        assert found.num_schedules == schedules


@pytest.mark.parametrize(
    ("part", "rule", "r", "optimum"),
    [
        (1, "master", 3, 142628),
        (2, "master", 3, 169168),
        (3, "master", 3, 162574),
        (4, "master", 3, 188036),
        (9, "master", 3, 285163),
        (2, "paper", 3, 169168),
        (9, "paper", 3, 285163),
        (2, "master", 0, 166849),
        (2, "paper", 0, 165076),
        (3, "paper", 0, 162574),
        (9, "master", 0, 277003),
        (9, "paper", 0, 277003),
        (2, "master", 5, 166849),
        (2, "paper", 5, 165076),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_nasnet_optima(nasnet, one_block, part, rule, r, optimum, lazy):
    graph, model = nasnet.graph(part)
    options = _options("both", rule, r, 8)
    found = search_ios(graph, model, options, lazy=lazy, partition=one_block(graph))
    assert found.latency_ns == optimum


def test_nasnet_totals(nasnet):
    graph, model = nasnet.graph()
    sizes = [len(part) for part in nasnet.parts]
    assert sizes == [1, 18, 21, 18, *[16] * 5, 19, 18, *[16] * 5, 19, 18, *[16] * 5, 1, 1]
    assert sum(model.price(graph, sequential_schedule(graph).stages)) == 9243618
    assert sum(model.price(graph, greedy_schedule(graph).stages)) == 5119660


def test_randwire_stage_3_unpruned(golden, one_block):
    recorded = golden["randwire"][1].parts[3]
    options = _options("parallel", "master")
    found = search_ios(
        recorded.graph, recorded.cost_model, options, partition=one_block(recorded.graph)
    )
    assert (found.states, found.transitions) == (5420, 1170663)
    assert found.num_schedules == 91973106270886052032664
    assert found.latency_ns == 462175


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "rule", "transitions", "schedules"),
    [
        (1, "master", 5807, "5.993e+09"),
        (1, "paper", 13398, "7.873e+09"),
        (2, "master", 762079, "2.473e+23"),
        pytest.param(2, "paper", 2980514, "3.234e+23", marks=pytest.mark.full),
        pytest.param(3, "paper", 3560808, 118464662394143512150016, marks=pytest.mark.full),
        (4, "master", 921106, "2.634e+24"),
        pytest.param(4, "paper", 4121123, "3.33e+24", marks=pytest.mark.full),
    ],
)
def test_randwire_unpruned(golden, one_block, part, rule, transitions, schedules):
    recorded = golden["randwire"][1].parts[part]
    found = search_ios(
        recorded.graph,
        recorded.cost_model,
        _options("parallel", rule),
        partition=one_block(recorded.graph),
    )
    assert found.transitions == transitions
    count = found.num_schedules
    assert schedules == (count if isinstance(schedules, int) else f"{count:.4g}")


def test_transitions_of_the_published_both_mode(golden, one_block):
    recorded = golden["inception_v3"][1].parts[10]
    options = _options("both", "master", 3, 8)
    (report,) = search_ios(
        recorded.graph, recorded.cost_model, options, partition=one_block(recorded.graph)
    ).blocks
    assert report.transitions + report.single_merges == 5295
