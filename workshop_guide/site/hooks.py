"""What the guide's site needs beyond its pages: pages from the root, links that stay inside, formatted answers."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

#: Pages of the repository's root -> their pages in the site.
FROM_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+\.?[^)\s#]*)(#[^)\s]*)?\)")
_FENCES = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Put pages that the menu does not name at its end: a new page is never lost, and never stops the build."""
    named = set(re.findall(r"[\w/-]+\.md", repr(config.nav)))
    docs = Path(config.docs_dir)
    pages = (path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md")))
    if more := [page for page in pages if page not in named]:
        config.nav.append({"More": more})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand in the repository's root."""
    for source, page in FROM_ROOT.items():
        text = (Path(config.config_file_path).parent / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Return the page with links that the site can follow, and with Markdown inside its folded answers."""
    source = page.file.src_uri
    root = {page: origin for origin, page in FROM_ROOT.items()}.get(source)
    here = "" if root else posixpath.join(Path(config.docs_dir).name, posixpath.dirname(source))
    parts = _FENCES.split(markdown)
    for number in range(0, len(parts), 2):  # the others are fenced code
        parts[number] = _LINK.sub(lambda link: _inside(link, here, source, config, files), parts[number])
        parts[number] = parts[number].replace("<details>", '<details markdown="1">')
    return "".join(parts)


def _inside(link: re.Match[str], here: str, source: str, config: Any, files: Files) -> str:
    """Return the link as the site needs it; what is not a page of the site is named, and not linked."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if re.match(r"[a-z]+:", target):
        return link[0]
    wanted = posixpath.normpath(posixpath.join(here, target))
    docs = Path(config.docs_dir).name + "/"
    uri = FROM_ROOT.get(wanted) or wanted.removeprefix(docs)
    if files.get_file_from_path(uri) is None:
        # A file of the repository (LICENSE, solutions/): the site does not hold it. A page that is missing must warn.
        inside = wanted.startswith(docs) or not (Path(config.docs_dir).parent / wanted).exists()
        return link[0] if inside else text
    return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(source) or '.')}{anchor})"
