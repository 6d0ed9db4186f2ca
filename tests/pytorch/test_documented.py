"""What the first pages of the documentation show of PyTorch runs."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs PyTorch; `make test-torch` has it")

from tests.documents import DOCS, code_blocks
from tests.impatience import IMPATIENT

pytestmark = [pytest.mark.torch, pytest.mark.slow(20)]


def test_a_model_of_pytorch_becomes_a_file(run_python, project_root, tmp_path):
    (code,) = (c for c in code_blocks(DOCS / "own-model.md", "python") if "import torch" in c)
    hasty = code.replace("time_budget=60", "time_budget=1")
    done = run_python("-c", IMPATIENT + hasty, PYTHONPATH=str(project_root))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cwd" / "net.so").exists()
