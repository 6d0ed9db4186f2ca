"""Facts that numbers are kept with: the machine, versions, and the commit of this package."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from importlib import metadata

from tvm_ios.host import default_lanes, machine, processor_name
from tvm_ios.host.machine import machine_facts, package_version, source_commit, version_facts


def test_facts_have_names():
    facts = machine_facts()
    assert facts["processor"] == processor_name()
    assert facts["cores"] == str(default_lanes())
    assert int(facts["memory GiB"]) > 0
    versions = version_facts()
    assert list(versions) == ["tvm-ios", "tvm", "llvm", "python"]
    assert versions["python"] == platform.python_version()


def test_a_checkout_that_nobody_installed_has_no_version(monkeypatch):
    installed = package_version()
    assert version_facts()["tvm-ios"] == installed == metadata.version("tvm-ios")
    monkeypatch.setattr(sys, "path", [])  # where metadata is looked for
    assert package_version() == "from the checkout"


def test_the_commit_is_that_of_a_checkout_with_this_file(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True
        )

    copy = tmp_path / "machine.py"
    shutil.copy(machine.__file__, copy)
    monkeypatch.setattr(machine, "__file__", str(copy))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert source_commit() == ""  # no checkout at all
    git("init", "--quiet")
    assert source_commit() == ""  # somebody else's, which does not have this file
    git("add", "machine.py")
    git("commit", "--quiet", "--message", "one")
    commit = source_commit()
    assert len(commit) == 12
    copy.write_text("changed")
    assert source_commit() == f"{commit}-dirty"


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert source_commit() == ""
