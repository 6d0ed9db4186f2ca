"""The cache of compiled kernels: bounded, safe for many writers, never wrong."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from tvm_ios.errors import HostError
from tvm_ios.kernels.cache import KernelCache


def archive(content=b"code", name="host.o"):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as members:
        members.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def cache(tmp_path):
    return KernelCache(tmp_path / "kernels")


def test_what_is_put_is_found_by_its_key_alone(cache):
    assert cache.get("a") is None
    cache.put("a", archive(b"one"))
    cache.put("b", archive(b"two"))
    assert (cache.get("a"), cache.get("b")) == (archive(b"one"), archive(b"two"))
    assert KernelCache(cache.folder).get("a") == archive(b"one")


def test_it_lies_in_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TVM_IOS_CACHE_DIR", str(tmp_path))
    KernelCache().put("a", archive())
    assert [path.name for path in (tmp_path / "kernels").iterdir()] == ["a.zip"]


@pytest.mark.slow
def test_an_entry_damaged_at_any_bit_is_dropped_or_still_right(cache):
    whole = archive(bytes(range(64)))
    path = cache.folder / "a.zip"
    for bit in range(8 * len(whole)):
        cache.put("a", whole)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found = cache.get("a")
        if found is None:
            assert not path.exists()
            continue
        # Fields that describe a file's origin are under no checksum, and nobody reads them.
        with zipfile.ZipFile(io.BytesIO(found)) as members:
            (name,) = members.namelist()
            assert members.read(name) == bytes(range(64))


@pytest.mark.parametrize("length", [0, 1, 30, 60, 100])
def test_a_truncated_entry_is_dropped(cache, length):
    cache.put("a", archive(b"c" * 50))
    path = cache.folder / "a.zip"
    path.write_bytes(path.read_bytes()[:length])
    assert cache.get("a") is None
    assert not path.exists()


def test_those_not_used_for_longest_go_first(cache):
    bounded = KernelCache(cache.folder, most_bytes=10 * len(archive(b"0")))
    for number in range(12):
        bounded.put(str(number), archive(b"x"))
        os.utime(bounded.folder / f"{number}.zip", (number, number))
    assert bounded.get("0") is not None  # used now, so the newest
    assert bounded.trim() == 5
    left = {path.stem for path in bounded.folder.iterdir()}
    assert left == {"0", "6", "7", "8", "9", "10", "11"}
    assert bounded.trim() == 0


def test_many_writers_and_readers_never_see_half_an_entry(cache):
    contents = [archive(bytes([number]) * 20000) for number in range(4)]
    wrong = []

    def work(number):
        for _ in range(50):
            cache.put("shared", contents[number])
            found = cache.get("shared")
            if found not in contents:
                wrong.append(found)

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(4)))
    assert not wrong
    assert [path.name for path in cache.folder.iterdir()] == ["shared.zip"]


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    cache = KernelCache(tmp_path / "file" / "kernels")
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept.*TVM_IOS_CACHE_DIR"):
        cache.put("a", archive())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get("a") is None
        assert cache.trim() == 0


@pytest.mark.slow
def test_new_entries_keep_the_cache_within_its_bound_by_themselves(tmp_path):
    size = len(archive(b"x"))
    bounded = KernelCache(tmp_path, most_bytes=20 * size)
    for number in range(1000):
        bounded.put(str(number), archive(b"x"))
    # Between two looks it may grow; looks are 64 entries apart on average, never regularly.
    assert len(list(tmp_path.iterdir())) < 20 + 400


def test_what_others_may_write_is_refused_and_new_entries_are_not_like_that(cache):
    before = os.umask(0o002)
    try:
        cache.put("a", archive())
    finally:
        os.umask(before)
    path = cache.folder / "a.zip"
    assert path.stat().st_mode & 0o7777 == 0o644
    path.chmod(0o664)
    with pytest.raises(HostError, match=f"{path} belongs to .* has mode 0664"):
        cache.get("a")
    cache.folder.chmod(0o775)
    with pytest.raises(HostError, match=f"{cache.folder} belongs to .* has mode 0775"):
        KernelCache(cache.folder)
