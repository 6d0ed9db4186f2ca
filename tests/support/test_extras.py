"""Commands that install what an extra names, as this installation knows it."""

from __future__ import annotations

from importlib import metadata

import pytest

from tvm_ios.support.extras import install_command


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("onnx", "pip install 'onnx>=1.19'"),
        ("http", "pip install 'starlette>=1' 'uvicorn>=0.30'"),
        ("onednn", "pip install 'onednn-cpu-gomp==2023.2.0'"),
    ],
)
def test_the_packages_of_an_extra_are_named(extra, command, monkeypatch):
    needed = [
        "numpy>=1.26",
        'onnx>=1.19; extra == "onnx"',
        "starlette>=1 ; extra == 'http'",
        'uvicorn>=0.30; extra == "http"',
        'onednn-cpu-gomp==2023.2.0; (platform_system == "Linux") and extra == "onednn"',
    ]
    monkeypatch.setattr(metadata, "requires", lambda _: needed)
    assert install_command(extra) == command


def test_a_checkout_that_is_not_installed_names_its_extra(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", missing)
    assert install_command("onnx") == "pip install -e '.[onnx]'"
