"""The wheel and the source distribution have all that the package reads beside its modules."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

CODE = """
import sys
from setuptools import build_meta
print(build_meta.build_sdist("dist"))
print(build_meta.build_wheel("dist"))
"""


@pytest.mark.slow(10)
def test_sdist_and_wheel_are_complete(project_root, tmp_path):
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("tvm_ios", "requirements"):
        shutil.copytree(project_root / folder, tree / folder, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(project_root / name, tree)
    built = subprocess.run(
        [sys.executable, "-c", CODE], cwd=tree, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    files = {
        str(path.relative_to(project_root))
        for path in (project_root / "tvm_ios").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    (wheel,) = (tree / "dist").glob("*.whl")
    assert files - set(zipfile.ZipFile(wheel).namelist()) == set()
    (archive,) = (tree / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    extras = {f"requirements/{path.name}" for path in (tree / "requirements").iterdir()}
    named = {name for name in extras if name in (tree / "pyproject.toml").read_text()}
    assert (files | named) - names == set()
