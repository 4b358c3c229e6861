"""What mkdocs does not do by itself: pages from the top of the repository, and links out of docs/.

README.md, CONTRIBUTING.md and CHANGELOG.md become pages of the site. A link to a file that is no page, or is of
the raw log, leads to the repository; a link to a file that does not exist ends the build. The search shows results,
and pages for contributors, behind those that say what to do.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""File at the top of the repository -> page of the site."""
RAW_LOG = "docs/studies/log"
"""Folder of the log of measurements, which is in the repository alone."""
BEHIND = (
    "studies/",
    "architecture.md",
    "decisions.md",
    "contributing.md",
    "changelog.md",
    "earlier_commits.md",
    "guarantees.md",
    "fidelity.md",
)
"""Pages that the search shows behind the others, which say what to do."""
BADGES = re.compile(r"<!-- badges -->.*?<!-- badges -->\n", re.DOTALL)
"""Pictures of other servers at the top of README.md, of which the site loads none."""
CODE = re.compile(r"(?<!<pre>)<code>([^<]+)</code>")
"""Code in a line of text."""
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
"""A table."""
BLOCK = re.compile(r"<pre>.*?</pre>", re.DOTALL)
"""A block of code."""
OPTION = re.compile(r"(?<![\w-])--[\w-]*\w")
"""An option in a block of code."""
NAME = re.compile(r"(?<=[\s>(])[\w/.:-]+[_/][\w/.:-]+(?=[\s<),;])")
"""The name of a file or of a test in a table."""
LONGEST_WORD = 36
"""Characters of a word of code that is not broken at its hyphens, at most; longer ones are, on small screens."""
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
"""The path and the anchor of a link to a file."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the repository to the site's files, and return these."""
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page's Markdown with links that work on the site, and without badges.

    Raises:
        PluginError: a link names a file that does not exist.
    """
    sources = {name: source for source, name in PAGES.items()}
    name = page.file.src_uri
    if name.startswith(BEHIND):
        page.meta["search"] = {"boost": 0.1}
    folder = posixpath.dirname(sources.get(name, f"docs/{name}"))

    def rewrite(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        target = posixpath.normpath(posixpath.join(folder, path))
        if not (ROOT / target).exists():
            raise PluginError(f"{name} links to {path}, which does not exist")
        on_site = PAGES.get(target)
        if target.startswith("docs/") and target.endswith((".md", ".png", ".json")) and not target.startswith(RAW_LOG):
            on_site = target.removeprefix("docs/")
        if on_site:
            return posixpath.relpath(on_site, posixpath.dirname(name) or ".") + anchor
        return f"{config.repo_url}/blob/main/{target}{anchor}"

    return LINK.sub(rewrite, BADGES.sub("", markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page's HTML in which lines may end behind `_` and `/` of a name, but not at hyphens of an option."""

    def whole(code: re.Match[str]) -> str:
        words = re.split(r"(\s+)", code[1])
        return f"<code>{''.join(_whole_word(word) for word in words)}</code>"

    def breakable(table: re.Match[str]) -> str:
        return NAME.sub(lambda match: _with_breaks(match[0]), table[0])

    html = TABLE.sub(breakable, CODE.sub(whole, html))
    return BLOCK.sub(lambda block: OPTION.sub(lambda match: _whole_word(match[0]), block[0]), html)


def _whole_word(word: str) -> str:
    """Return a word of code that is not broken at its hyphens, if it is short enough."""
    if "-" in word and len(word) <= LONGEST_WORD:
        return f'<span class="word">{_with_breaks(word)}</span>'
    return _with_breaks(word)


def _with_breaks(name: str) -> str:
    """Return a name that may be broken behind each `_` and `/` inside."""
    return re.sub(r"(?<=\w)[_/](?=\w)", r"\g<0><wbr>", name)
