"""README and docs as tests read them: which files there are, and their blocks of code."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["DOCS", "DOCUMENTS", "README", "code_blocks"]

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
DOCS = ROOT / "docs"
DOCUMENTS = sorted([README, *DOCS.glob("**/*.md"), ROOT / "CHANGELOG.md"])


def code_blocks(document: Path, language: str) -> list[str]:
    """What stands between the fences of one language, in order."""
    text = document.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
