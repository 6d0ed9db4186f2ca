"""Networks that run together: each runs once a run, and outputs keep their order."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_ios_lab.peers.network import Case, Network, shared_inputs
from tvm_ios_lab.peers.subject import Subject, member_folders
from tvm_ios_lab.peers.together import AtOnce, InTurn, OnThreads


class Counter:
    """A network that counts its runs."""

    def __init__(self, said, name):
        self.said, self.name, self.runs = said, name, 0

    def run(self):
        self.runs += 1
        self.said.append(f"run {self.name}")

    def start(self):
        self.runs += 1
        self.said.append(f"start {self.name}")

    def wait(self):
        self.said.append(f"wait {self.name}")

    def output(self):
        return np.array([self.runs])


@pytest.mark.parametrize("form", [InTurn, OnThreads, AtOnce])
def test_each_network_runs_once_a_run(form):
    together = form([Counter([], "a"), Counter([], "b"), Counter([], "c")])
    together.run()
    together.run()
    assert [list(output) for output in together.outputs()] == [[2], [2], [2]]


def test_requests_are_all_begun_before_one_is_waited_for():
    said = []
    AtOnce([Counter(said, "a"), Counter(said, "b")]).run()
    assert said == ["start a", "start b", "wait a", "wait b"]


def test_the_error_of_a_thread_is_raised():
    class Broken(Counter):
        def run(self):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        OnThreads([Counter([], "a"), Broken([], "b")]).run()


def test_a_set_lies_beside_its_members(tmp_path):
    pair = Subject.parse("a+b:2")
    assert [member.stem for member in pair.members] == ["a_bs2", "b_bs2"]
    assert member_folders(tmp_path / pair.stem) == [tmp_path / "a_bs2", tmp_path / "b_bs2"]
    assert member_folders(tmp_path) == [tmp_path]


def test_inputs_are_shared_where_all_read_the_same():
    def case(value, name="x"):
        network = Network(name="n", batch_size=1, input=name, input_shape=(1,), output="y", macs=1)
        return Case(network=network, weights={}, input=np.array([value]), reference=np.zeros(1))

    assert shared_inputs([case(1), case(1)]) == ("x",)
    assert shared_inputs([case(1), case(2)]) == ()
    assert shared_inputs([case(1), case(1, "z")]) == ()
    assert shared_inputs([case(1)]) == ()
