"""What the backend of ``torch.compile`` says and compiles while a test runs."""

from __future__ import annotations

import logging

import pytest


@pytest.fixture
def said(caplog):
    """Messages of the backend."""
    caplog.set_level(logging.WARNING, "tvm_ios.pytorch")
    return lambda: [each.getMessage() for each in caplog.records if "pytorch" in each.name]


@pytest.fixture
def parts(monkeypatch):
    """Every part that is compiled while a test runs."""
    from tvm_ios.pytorch import part  # torch may be missing
    from tvm_ios.pytorch.part import CompiledPart

    made = []

    class Watched(CompiledPart):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(part, "CompiledPart", Watched)
    return made
