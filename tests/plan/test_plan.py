"""Plans are printed without loss."""

from __future__ import annotations

import random

from tvm_ios.plan.lower import lower_plan


def test_text_names_every_launch(random_graph):
    plan = lower_plan(*random_graph(random.Random(3)), lanes=2)
    text = plan.as_text()
    assert all(f"{launch.operator}(" in text for launch in plan.launches)
    assert f"arena {plan.arena_bytes} bytes" in text
