"""Links from the documentation to files outside docs/, such as benchmark results and source files, inside the built site.

A page links a file of the repository by its relative path, so that the link works wherever the repository is read. The
site has these files too, in its folder `repository/`: Markdown and pictures as they are, source files as a page with the
code. A link to a file that does not exist stays as it is, and `mkdocs build --strict` refuses it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
DOCS, OUTSIDE = "docs/", "repository/"
AS_THEY_ARE = (".md", ".svg", ".png")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds every file outside docs/ that a page links, and what such a file links in turn."""
    pages = [DOCS + file.src_uri for file in files.documentation_pages()]
    added: set[str] = set()
    while pages:
        for path in linked_files(pages.pop()) - added:
            added.add(path)
            files.append(site_file(path, config))
            if path.endswith(".md"):
                pages.append(path)
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Points links at the places that the linked files have in the site."""
    here = repository_path(page.file.src_uri)

    def move(match: re.Match[str]) -> str:
        path = resolve(here, match[1])
        if not (ROOT / path).is_file():
            return match[1]
        return os.path.relpath(site_path(path), PurePosixPath(page.file.src_uri).parent)

    return LINK.sub(move, markdown)


def linked_files(page: str) -> set[str]:
    """Paths in the repository of the existing files outside docs/ that a page links."""
    paths = {resolve(page, link) for link in LINK.findall((ROOT / page).read_text("utf-8"))}
    return {path for path in paths if not path.startswith(DOCS) and (ROOT / path).is_file()}


def resolve(page: str, link: str) -> str:
    return os.path.normpath(PurePosixPath(page).parent / link)


def site_path(path: str) -> str:
    """`docs/howto/task.md` -> `howto/task.md`; `vlrft/trainer/train.py` -> `repository/vlrft/trainer/train.py.md`."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return OUTSIDE + (path if path.endswith(AS_THEY_ARE) else f"{path}.md")


def repository_path(uri: str) -> str:
    """The inverse of `site_path`."""
    return uri.removeprefix(OUTSIDE) if uri.startswith(OUTSIDE) else DOCS + uri


def site_file(path: str, config: MkDocsConfig) -> File:
    uri = site_path(path)
    if path.endswith(AS_THEY_ARE):
        return File.generated(config, uri, abs_src_path=str(ROOT / path))
    text = (ROOT / path).read_text(encoding="utf-8")
    language = LANGUAGES.get(PurePosixPath(path).suffix, "text")
    head = f"---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n\n# {path}\n\n"
    return File.generated(config, uri, content=f"{head}`````{language}\n{text}\n`````\n")
