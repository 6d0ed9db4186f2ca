"""Settings of Sphinx, which builds the documentation in ``make docs``.

Sources are read from the root of the repository, so that every relative link that works there
works on the built pages, too.
"""

from __future__ import annotations

from importlib import metadata

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

project = "tvm-ios"
author = "the authors of tvm-ios"
try:
    release = metadata.version("tvm-ios")
except metadata.PackageNotFoundError:
    release = ""

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "CHANGELOG.md",
    "lab/*.md",
    "lab/results/**/*.md",
    "lab/tvm_ios_lab/**/*.md",
]
exclude_patterns = [".*", "build", "dist", "out", "tvm_ios", "tests", "**/node_modules"]
# Decision notes are reached by their list, and tables of results, which begin without a heading, by
# the pages that speak of them; tests/test_docs.py checks that all others are in the contents.
suppress_warnings = ["toc.not_included", "myst.header"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
python_maximum_signature_line_length = 80
add_module_names = False
napoleon_google_docstring = False
napoleon_use_ivar = True

highlight_language = "none"
html_theme = "furo"
html_title = "tvm-ios"
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_copy_source = False
html_show_copyright = False


def setup(app: Sphinx) -> None:
    """Show diagrams, which need a script from elsewhere, as the text they are."""
    app.add_lexer("mermaid", TextLexer)
