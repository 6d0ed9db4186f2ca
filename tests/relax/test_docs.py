"""What pages show of Relax is true."""

from __future__ import annotations

import pytest

from tests.documents import DOCS, code_blocks
from tests.relax.networks import squeezenet


@pytest.mark.slow(3)
def test_the_page_of_passes():
    (code,) = code_blocks(DOCS / "passes.md", "python relax")
    mod, params, image = squeezenet()
    exec(compile(code, "passes.md", "exec"), {"mod": mod, "params": params, "image": image})
