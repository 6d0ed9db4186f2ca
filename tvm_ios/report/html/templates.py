"""Templates of pages, and the optional library that fills them in."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from typing import TYPE_CHECKING

from tvm_ios.errors import HostError
from tvm_ios.support.extras import install_command

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["SCRIPT", "require_templates", "script_digest", "templates"]

SCRIPT = "zoom.js"
"""Name of a page's only script; without it everything can still be read."""


@cache
def templates() -> Environment:
    """Environment with all templates, which escapes what it is given."""
    try:
        import jinja2  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise HostError(
            f"a page needs jinja2, which is not installed; run `{install_command('report')}`"
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("tvm_ios.report.html"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def require_templates() -> None:
    """Fail before hours of work if there can be no page at their end."""
    templates()


def script_digest() -> str:
    """Digest of the script as browsers take it, which then run no other one in the page."""
    text = templates().get_template(SCRIPT).render()
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"sha256-{digest}"
