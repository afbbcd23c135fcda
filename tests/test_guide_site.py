"""Claims about the guide's site: no warning, nothing fetched, no link astray, and all of it can be read aloud."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from browsing import chromium, missing

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "workshop_guide"
PICTURES = sorted((GUIDE / "pictures").glob("*.svg"))
#: What a browser loads by itself: element -> attribute. Links that a reader may follow are something else.
LOADED = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "embed": "src",
}


class Page(HTMLParser):
    """What a page holds: its elements with their attributes, in order."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def attributes(self, tag: str) -> Iterator[dict[str, str]]:
        yield from (attributes for name, attributes in self.elements if name == tag)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The guide, built as `make guide` builds it."""
    if importlib.util.find_spec("material") is None:
        pytest.skip("mkdocs-material is not installed: pip install '.[guide]'")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_of_the_guide_is_in_the_site_and_in_its_menu(site: Path) -> None:
    menu = {attributes.get("href") for attributes in Page(site / "index.html").attributes("a")}
    for page in sorted(GUIDE.rglob("*.md")):
        inside = page.relative_to(GUIDE)
        built = inside.with_name("index.html" if inside.name == "README.md" else inside.with_suffix(".html").name)
        assert (site / built).is_file() and built.as_posix() in menu


def test_no_page_loads_anything_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for tag, attribute in LOADED.items():
            for attributes in page.attributes(tag):
                target = attributes.get(attribute, "")
                assert not re.match(r"([a-z]+:)?//", target), f"{path.name} loads {target}"
    for style in site.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert re.findall(r"@import|url\(['\"]?(?:https?:)?//[^)]*", text) == [], style.name


def test_every_link_inside_the_site_leads_to_a_page_and_to_a_place_in_it(pages: dict[Path, Page]) -> None:
    places = {
        path: {attributes["id"] for _, attributes in page.elements if "id" in attributes}
        for path, page in pages.items()
    }
    checked = 0
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links start from the address of the site, which is not known here
        for attributes in page.attributes("a"):
            target = urlsplit(attributes.get("href", ""))
            if target.scheme or target.netloc:
                assert target.scheme in ("https", "mailto"), f"{path.name}: {target.geturl()}"
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            file = file / "index.html" if file.is_dir() else file
            assert file.exists(), f"{path.name} links to {target.path}"
            if target.fragment and file in places:
                assert unquote(target.fragment) in places[file] | {"__toc"}, f"{path.name}: {target.geturl()}"
            checked += 1
    assert checked > 500


def test_every_page_can_be_read_aloud(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert [attributes["lang"] for attributes in page.attributes("html")] == ["en"]
        assert sum(tag == "h1" for tag, _ in page.elements) == 1, f"{path.name} has not one first heading"
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        jumps = [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1]
        assert jumps == [], f"{path.name} skips a level of heading"
        for attributes in page.attributes("img"):
            assert len(attributes.get("alt", "")) > 10, f"{path.name}: {attributes.get('src')} is not described"


@pytest.mark.browser
@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_has_no_fault_that_an_accessibility_checker_finds(site: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found: dict[str, list[str]] = {}
    with chromium() as browser:
        context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
        asked: list[str] = []
        context.on("request", lambda request: asked.append(request.url))
        for name in ("index", "part1-tokenization", "part3-training", "handbook/course", "handbook/servers", "reports"):
            page = context.new_page()
            page.goto((site / f"{name}.html").as_uri())
            faults = Axe().run(page).response["violations"]
            found[name] = [f"{each['id']}: {node['html'][:200]}" for each in faults for node in each["nodes"]]
            page.close()
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert not {name: faults for name, faults in found.items() if faults}


def test_folded_answers_are_formatted(site: Path) -> None:
    text = (site / "part3-training.html").read_text(encoding="utf-8")
    assert text.count("<details>") == 3
    assert re.search(r"<details>\s*<summary>.*?</summary>\s*<p>", text)
    assert "<code>n_head</code>. Heads are slices" in (site / "part2-config.html").read_text(encoding="utf-8")


def _drawing() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw", GUIDE / "site" / "draw.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pictures_are_what_their_script_draws_from_the_measured_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    drawn = _drawing().drawn()
    assert {path.name: path.read_text(encoding="utf-8") for path in PICTURES} == drawn


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_small_named_used_and_loads_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert len(text) < 30_000
    assert "<title>" in text and 'role="img"' in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "") and "<script" not in text
    assert any(f"(pictures/{picture.name})" in page.read_text(encoding="utf-8") for page in GUIDE.glob("*.md"))


def test_the_losses_that_the_guide_states_are_the_measured_ones() -> None:
    curves = json.loads((GUIDE / "site" / "measured.json").read_text(encoding="utf-8"))["curves"]
    text = (GUIDE / "part3-training.md").read_text(encoding="utf-8")
    for run in ("muon", "adamw"):
        last = curves[run]["validation"][-1]
        assert last[0] == 400 and f"| {last[1]:.2f} |" in text
    best = min(curves["short"]["validation"], key=lambda pair: pair[1])
    assert f"From step {best[0]} on" in text and f"from {best[1]:.2f} to" in text


def test_the_table_of_choices_states_the_measured_parameters_and_losses() -> None:
    found = json.loads((GUIDE / "site" / "choices.json").read_text(encoding="utf-8"))
    text = (GUIDE / "foundations.md").read_text(encoding="utf-8")
    first, seed, *others = found["runs"]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    told = {(row[1], row[3]): row for row in cells if len(row) == 5}
    for run in (first, seed, *others):
        row = told[f"{run['parameters']:,}", f"{run['loss']:.3f}"]
        if run is not first:
            assert int(row[2].replace(",", "")) == run["parameters"] - first["parameters"]
            assert float(row[4]) == pytest.approx(run["loss"] - first["loss"], abs=6e-4)
    assert f"{found['logits_apart']:.0e}" in text and found["settings"]["threads"] == 1
    assert f"Two seeds of one model are {abs(seed['loss'] - first['loss']):.3f} apart" in text
