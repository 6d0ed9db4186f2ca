"""Facts of software: equal for equal files, others for others, and nothing is loaded."""

from __future__ import annotations

import json
import os
import sys

from tvm_ios.host.software import (
    code_digest,
    file_digest,
    file_facts,
    package_versions,
    tvm_facts,
)


def test_each_file_of_a_package_counts_but_for_compiled_python(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "a.py").write_text("a = 1")
    digest = code_digest(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("compiled")
    assert code_digest(tmp_path) == digest
    (tmp_path / "part" / "a.py").write_text("a = 2")
    changed = code_digest(tmp_path)
    (tmp_path / "part" / "a.py").rename(tmp_path / "part" / "b.py")
    assert len({digest, changed, code_digest(tmp_path)}) == 3
    assert code_digest() == code_digest()


def test_facts_of_files_are_path_size_and_time(tmp_path):
    path = tmp_path / "lib.so"
    assert file_facts([path]) == ()
    path.write_bytes(b"code")
    before = file_facts([path])
    os.utime(path, (1, 1))
    assert len({before, file_facts([path])}) == 2
    assert file_digest(path) == file_digest(path)


def test_tvm_is_described_without_its_import(run_python, project_root):
    code = (
        "import json, sys; from tvm_ios.host.software import tvm_facts; "
        "print(json.dumps([tvm_facts(), 'tvm' in sys.modules]))"
    )
    done = run_python("-c", code, PYTHONPATH=str(project_root))
    facts, loaded = json.loads(done.stdout)
    assert not loaded
    assert any("libtvm.so" in fact for fact in facts)
    assert tuple(facts) == tvm_facts()  # TVM is loaded here


def test_a_tvm_that_cannot_be_found_has_no_facts(monkeypatch):
    monkeypatch.delitem(sys.modules, "tvm", raising=False)
    monkeypatch.setenv("TVM_IOS_TVM", "neither")
    assert tvm_facts() == ()


def test_missing_packages_have_no_version():
    assert package_versions(["numpy", "no-such-package"])["no-such-package"] == ""
    assert package_versions(["numpy"])["numpy"]
