"""Exported files written beside their path and moved there as a whole. No TVM here."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_ios.errors import ArtifactError

__all__ = ["copy_artifact", "new_artifact"]


@contextmanager
def new_artifact(path: Path) -> Iterator[Path]:
    """Context of a path to write; its file goes to ``path`` when the block ends without error."""
    try:
        # Beside the file: a move replaces it at once only within one file system.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            library = Path(folder) / "model.so"
            yield library
            os.replace(library, path)
    except (OSError, RuntimeError) as error:
        raise ArtifactError(
            f"{path}: cannot be exported: {error}; check the folder and the C compiler"
        ) from error


def copy_artifact(source: Path, path: Path) -> None:
    """Copy an exported file; one at ``path`` is replaced when all is done."""
    with new_artifact(path) as library:
        shutil.copy(source, library)
