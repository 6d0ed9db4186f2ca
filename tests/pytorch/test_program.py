"""Graphs that are called with other sizes, weights and state than those they were compiled for."""

from __future__ import annotations

from threading import Thread

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from torch import nn  # noqa: E402 - torch may be missing
from torch.fx import symbolic_trace  # noqa: E402
from tvm import relay  # noqa: E402

from tests.pytorch.compiling import OPTIONS, compiled  # noqa: E402
from tvm_ios.pytorch import program  # noqa: E402
from tvm_ios.pytorch.backend import tvm_ios  # noqa: E402
from tvm_ios.pytorch.captured import CapturedGraph  # noqa: E402
from tvm_ios.pytorch.options import BackendOptions  # noqa: E402
from tvm_ios.relay.frontends import torch as frontend  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.slow(20)]


@torch.no_grad()
def test_sizes_that_are_marked_dynamic_stay_so(parts):
    def doubled(x):
        return torch.relu(x) * 2

    run = compiled(doubled)
    for size in (5, 6, 5):
        x = torch.randn(size, 3)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(run(x), doubled(x))
    assert len(parts) == 2


class Counting(nn.Module):
    """A module that writes to a buffer in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return torch.relu(x) + self.calls


@torch.no_grad()
def test_a_graph_that_writes_to_a_buffer_is_left_to_torch_once(said):
    run, twin = compiled(Counting()), Counting()
    for _ in range(4):
        x = torch.randn(2, 3)
        torch.testing.assert_close(run(x), twin(x))
    assert len(said()) == 1


class Recurrent(nn.Module):
    """A module that has another tensor for its state after each call."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("state", torch.zeros(1, 4))

    def forward(self, x):
        self.state = torch.tanh(self.linear(x) + self.state)
        return self.state * 2


@torch.no_grad()
def test_state_is_an_input_once_it_has_changed_twice(parts, said):
    model, twin = Recurrent(), Recurrent()
    twin.load_state_dict(model.state_dict())
    run = compiled(model)
    for _ in range(5):
        x = torch.randn(1, 4)
        torch.testing.assert_close(run(x), twin(x))
    assert len(parts) == 3
    assert said()[-1].endswith("; 1 of them did before, and are inputs now")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


@torch.no_grad()
def test_layers_that_are_compiled_one_by_one_come_to_share_what_is_compiled(parts):
    layers = [Layer() for _ in range(4)]
    torch._dynamo.reset()
    for layer in layers:
        layer.compile(backend="tvm_ios", options=OPTIONS)
    x = torch.randn(2, 4)
    for layer in (*layers, *layers):
        torch.testing.assert_close(layer(x), torch.relu(layer.linear(x)))
    assert len(parts) == 3


@torch.no_grad()
def test_a_thread_that_compiles_leaves_nothing_of_weights_that_are_old_by_then(monkeypatch):
    weight, x = torch.ones(1), torch.ones(1)
    others = []

    def compile_while_another_calls(graph, arguments, options):
        now = arguments[0].clone()
        if now == 2:
            weight.add_(1)
            others.append(Thread(target=lambda: run(weight, x)))
            others[0].start()
            others[0].join(0.2)
        return lambda *given: given[1] * now

    monkeypatch.setattr(program, "_compiled", compile_while_another_calls)
    graph = CapturedGraph(symbolic_trace(lambda weight, x: x * weight), (weight, x), (0,), (), (1,))
    run = program.GraphProgram(graph, BackendOptions.of({}))
    weight.add_(1)
    run(weight, x)
    others[0].join()
    assert run(weight, x) == 3


@torch.no_grad()
def test_bad_values_are_the_callers_and_nothing_is_kept_of_them(parts):
    table = nn.Embedding(10, 4)

    def found(rows):
        return torch.relu(table(rows)) + 1

    run = compiled(found)
    for size in (3, 4):
        run(torch.arange(size))
    with pytest.raises(IndexError):
        run(torch.full((5,), 10))
    torch.testing.assert_close(run(torch.arange(6)), found(torch.arange(6)))
    assert len(parts) == 3


@torch.no_grad()
def test_graphs_within_a_graph_are_run_by_torch(said):
    def branched(x):
        return torch.cond(x.sum() > 0, lambda x: torch.relu(x) + 1, lambda x: x - 1, (x,)) * 2

    run = compiled(branched)
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        torch.testing.assert_close(run(x), branched(x))
    assert "HigherOrderOperator cond" in said()[0]


@torch.no_grad()
def test_a_graph_that_cannot_be_looked_at_is_torchs(said, parts):
    def gathered(x):
        return (torch.relu(x).to_sparse() * 2).to_dense()

    x = torch.ones(2, 3)
    run = tvm_ios(torch.fx.symbolic_trace(gathered), [x])
    torch.testing.assert_close(run(x), gathered(x))
    assert said()[0].startswith("tvm_ios leaves a graph to torch: it cannot be looked at: NotImpl")
    assert parts == []


@torch.no_grad()
def test_a_part_that_computes_something_else_is_left_to_torch(monkeypatch, said, parts):
    known = frontend.converters
    wrong = {"aten::tanh": lambda inputs, _: relay.sigmoid(inputs[0])}
    monkeypatch.setattr(frontend, "converters", lambda: known() | wrong)

    def bent(x):
        return torch.tanh(x) * 2

    x = torch.linspace(1, 2, 20).reshape(4, 5)  # tanh and sigmoid are nowhere alike there
    torch.testing.assert_close(compiled(bent)(x), bent(x), rtol=0, atol=0)
    assert len(parts) == 1
    assert "something else than torch: 20 of 20 values of output 0 differ" in said()[-1]
