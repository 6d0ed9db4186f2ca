"""Ctrl-C in a callback of TVM-FFI: it is raised, and not taken for an error of TVM's."""

from __future__ import annotations

import signal

import pytest
import tvm

from tests.relax.networks import inception_block
from tvm_ios.relax import prepare as module
from tvm_ios.relax.prepare import prepare

pytestmark = pytest.mark.usefixtures("hears_ctrl_c")


def press(*_) -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_function_that_tvm_calls_back_hands_it_on():
    with pytest.raises(KeyboardInterrupt):
        tvm.runtime.convert(press)()


def test_a_pass_of_python_hands_it_on(monkeypatch):
    pressed = tvm.transform.module_pass(press, opt_level=0, name="Pressed")
    monkeypatch.setattr(module, "legalize_noted", pressed)
    mod, _ = inception_block()
    with pytest.raises(KeyboardInterrupt):
        prepare(mod)
