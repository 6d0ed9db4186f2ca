from __future__ import annotations

import pytest

from tvm_ios.host.onednn_files import find_onednn
from tvm_ios.runtime.libraries.onednn.library import Onednn, load_onednn


@pytest.fixture(scope="session")
def onednn() -> Onednn:
    """oneDNN, which requirements/dev.txt installs where there is a wheel."""
    found = find_onednn()
    if found.version is None:
        pytest.skip(f"no oneDNN here: {found.reason}")
    return load_onednn()
