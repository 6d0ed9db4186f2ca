"""Batches on this CPU: who races, and what the table says of it."""

from __future__ import annotations

import pytest

from lab.tests.papers.peer_races import raced_peers
from tvm_ios.errors import HostError
from tvm_ios_lab.harness.protocol import Outcome, Settings
from tvm_ios_lab.papers.batch_size import BatchSize, raced_batch

PEERS = {"torch compile, 2 threads": 9.0, "onnxruntime, 2 threads": 6.0, "openvino, 2 threads": 5.0}


def ours(**ms):
    return {f"tvm-ios onednn {name}, 2 threads": value for name, value in ms.items()}


def row_of(found):
    cell = next(c for c in BatchSize().cells(Settings(lanes=2)) if c.batch == 16)
    table = BatchSize().table([Outcome(cell=cell, found=found)])
    return dict(zip(table.header, table.rows[0], strict=True))


def test_a_batch_is_held_against_the_fastest_peer():
    found = raced_batch(raced_peers(PEERS, ours(sequential=4.0, ios=2.5)))
    assert (found.sequential_ms, found.ios_ms, found.speedup) == (4.0, 2.5, 1.6)
    row = row_of(found)
    assert (row["best peer"], row["peer ms"]) == ("openvino, 2 threads", "5.00")
    assert row["over the peer"] == "2.00 (2.00-2.00)"
    assert (row["IOS ms"], row["IOS images/s"]) == ("2.50", "6400")


def test_a_schedule_that_is_sequential_order_is_marked():
    row = row_of(raced_batch(raced_peers({}, ours(sequential=4.0), ("no PyTorch here",))))
    assert (row["sequential ms"], row["IOS ms"], row["speedup"]) == ("4.00", "=4.00", "1.000")
    assert (row["best peer"], row["over the peer"]) == ("-", "-")
    assert row["left out"] == "no PyTorch here"


def test_greedy_is_not_what_ios_has_found():
    found = raced_batch(raced_peers({}, ours(sequential=4.0, greedy=2.0)))
    assert (found.ios_ms, found.same) == (4.0, True)


def test_only_full_size_cells_race_others():
    against = [c.against for c in BatchSize().cells(Settings(lanes=2, peers=True)) if c.run]
    assert [str(each) for each in against] == [
        "against torch, torch channels last, torch compile, onnxruntime, openvino"
    ] * 3
    assert not any(c.against for c in BatchSize().cells(Settings(lanes=2)))
    quick = BatchSize().cells(Settings(lanes=2, quick=True, peers=True))
    assert not any(c.against for c in quick)


def test_a_race_without_sequential_order_fails_with_the_reason():
    with pytest.raises(HostError, match="sequential order took no part: openvino: too slow"):
        raced_batch(raced_peers(PEERS, {}, ("openvino: too slow",)))
