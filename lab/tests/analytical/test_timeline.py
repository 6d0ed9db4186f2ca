"""A simulated run as text."""

from __future__ import annotations

from tvm_ios_lab.analytical.timeline import SimulatedOperator, SimulatedRun


def test_text_says_that_nobody_ran_it():
    run = SimulatedRun(
        graph_name="net",
        scheduler="ios",
        priced_by="analytical model of a GPU",
        stage_ns=(5000, 12000),
        operators=tuple(
            SimulatedOperator(members=(name,), stage=stage, group=group, start_ns=start, end_ns=end)
            for name, stage, group, start, end in (
                ("stem", 0, 0, 2000, 5000),
                ("a", 1, 0, 7000, 9000),
                ("b", 1, 0, 11000, 15000),
                ("c", 1, 1, 7000, 16000),
            )
        ),
    )
    assert run.latency_ns == 17000
    assert run.as_text() == (
        "simulated run of net, schedule ios: 0.0170 ms by the analytical model of a GPU\n"
        "  stage 0 at 0.0 us for 5.0 us: stem [2.0-5.0]\n"
        "  stage 1 at 5.0 us for 12.0 us: a [7.0-9.0] -> b [11.0-15.0] | c [7.0-16.0]"
    )
