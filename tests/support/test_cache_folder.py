"""The cache folder is this user's own, or refused before anything is loaded from it."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess

import pytest

from tvm_ios.errors import HostError
from tvm_ios.support.cache_folder import cache_directory, own_folder, require_own

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "cache"
    made.mkdir(mode=0o755)
    return made


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077])
def test_new_folders_are_for_this_user_alone(tmp_path, monkeypatch, umask):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path / "new" / "cache"))
    before = os.umask(umask)
    try:
        own_folder(cache_directory() / "native")
    finally:
        os.umask(before)
    for name in ("new", "new/cache", "new/cache/native"):
        assert (tmp_path / name).stat().st_mode & 0o7777 == 0o700


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_may_write_to_is_refused(folder, monkeypatch, mode):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(folder))
    assert cache_directory() == folder
    folder.chmod(mode)
    says = (
        f"{re.escape(str(folder))} belongs to user .* has mode {mode:04o}.*chmod -R go-w {folder}"
    )
    with pytest.raises(HostError, match=says) as caught:
        cache_directory()
    assert "\n" not in str(caught.value)
    folder.chmod(mode & ~0o022)
    assert cache_directory() == folder


def test_the_command_that_mends_a_file_mends_its_neighbours(folder):
    for name in ("a b.zip", "other.zip"):
        (folder / name).touch()
        (folder / name).chmod(0o664)
    with pytest.raises(HostError, match="mode 0664") as caught:
        require_own(folder / "a b.zip")
    command = re.search(r"; (chmod .*) if you trust", str(caught.value))
    subprocess.run(shlex.split(command[1]), check=True)
    require_own(folder / "other.zip")


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch):
    for name in ("TVM_IOS_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(HostError, match="set TVM_IOS_CACHE_DIR, or HOME, to a folder"):
        cache_directory()


@as_root
def test_what_belongs_to_somebody_else_is_refused(folder):
    file = folder / "file.so"
    file.write_text("")
    os.chown(file, NOBODY, NOBODY)
    with pytest.raises(HostError, match=r"belongs to user 65534 .*set TVM_IOS_CACHE_DIR to a new"):
        require_own(file)
    assert own_folder(folder) == folder
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(HostError, match="belongs to user 65534"):
        own_folder(folder)


@as_root
def test_of_a_link_both_the_owner_of_the_link_and_of_what_it_leads_to_count(folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert own_folder(link) == link
    os.lchown(link, NOBODY, NOBODY)
    with pytest.raises(HostError, match="belongs to user 65534"):
        own_folder(link)
    os.lchown(link, 0, 0)
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(HostError, match="belongs to user 65534"):
        own_folder(link)


def test_a_link_to_what_others_may_write_to_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o775)
    with pytest.raises(HostError, match="has mode 0775"):
        own_folder(tmp_path / "link")


@as_root
def test_what_root_owns_is_fine_for_everybody(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert own_folder(folder) == folder


def test_the_folder_above_is_nobodys_business(folder):
    folder.chmod(0o777)
    assert own_folder(folder / "cache") == folder / "cache"


def test_a_folder_that_cannot_be_made_is_told_of_by_who_writes_to_it(tmp_path):
    (tmp_path / "file").write_text("")
    assert not own_folder(tmp_path / "file" / "cache").exists()
