"""A first call runs the first model; the finished one takes its place between two calls."""

from __future__ import annotations

import logging
import threading

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from tests.pytorch.compiling import compiled, image  # noqa: E402 - torch may be missing
from tests.pytorch.test_backend import Branches, assert_same  # noqa: E402
from tvm_ios.driver.later.begun_call import LaterModel  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow(20),
    pytest.mark.usefixtures("kept_at_once"),
]


@pytest.fixture
def started(monkeypatch):
    """Finished models that a test has processes look for."""
    found, begin = [], LaterModel.__init__

    def watched(later, kept):
        begin(later, kept)
        found.append(later)

    monkeypatch.setattr(LaterModel, "__init__", watched)
    return found


def _join():
    for thread in threading.enumerate():
        if thread.name == "tvm-ios later":
            thread.join()


@torch.no_grad()
def test_the_finished_model_takes_the_place_of_the_first(parts, started, said, caplog):
    model = Branches()
    run = compiled(model)
    assert_same(run(image()), model(image()))
    (later,) = started
    assert parts[0].model.interim
    later._process.wait()
    with caplog.at_level(logging.INFO, "tvm_ios.pytorch"):
        for _ in range(2):
            assert_same(run(image()), model(image()))
            _join()
    assert len(parts) == 2
    assert parts[1].model.was_loaded
    assert "tvm_ios has the finished model of a part" in caplog.text
    again = compiled(model)
    assert_same(again(image()), model(image()))
    assert parts[2].model.was_loaded
    assert len(started) == 1


@torch.no_grad()
def test_a_finished_model_that_computes_something_else_is_not_taken(
    parts, started, said, monkeypatch
):
    from tvm_ios.pytorch import part

    model = Branches()
    run = compiled(model)
    run(image())
    started[0]._process.wait()
    monkeypatch.setattr(part, "disagreement", lambda *_, **__: "all differ")
    for _ in range(2):
        assert_same(run(image()), model(image()))
        _join()
    assert "goes on with the first model of a part: compiled, it computes" in said()[-1]


@torch.no_grad()
def test_who_waits_has_the_finished_model(parts, started):
    model = Branches()
    assert_same(compiled(model, wait=True)(image()), model(image()))
    assert not parts[0].model.interim
    torch.use_deterministic_algorithms(True)
    try:
        assert_same(compiled(model)(image(3)), model(image(3)))
    finally:
        torch.use_deterministic_algorithms(False)
    assert not started
