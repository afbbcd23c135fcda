"""Output under a cell: HTML with its plain text, and a button where the notebook has widgets."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from autograder.catalogue import ENGLISH, VARIABLE, Catalogue, CatalogueError, load
from autograder.reports.notebook import note_html


def show(html: str, text: str) -> None:
    """Show `html` under the running cell, or print `text` where nothing can show HTML."""
    if _in_kernel():
        from IPython.display import display

        display({"text/html": html, "text/plain": text}, raw=True)
    else:
        print(text)


def note(sentence: str) -> None:
    """Show one sentence, in the reader's language."""
    language = reader()
    show(note_html(sentence, language), language.say(sentence))


@cache
def _named(language: str) -> Catalogue:
    try:
        return load(language)
    except CatalogueError as error:
        print(error)
        return ENGLISH


def reader() -> Catalogue:
    """Return the language of this notebook's reader: what WORKSHOP_LANG names, else English."""
    return _named(os.environ.get(VARIABLE, ""))


class Place:
    """A place under the running cell whose content is replaced: where nothing can show HTML, texts are printed."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._said = ""

    def put(self, html: str, text: str) -> None:
        """Show `html` there, in place of what was shown before."""
        if not _in_kernel():
            if text != self._said:
                print(text)
            self._said = text
            return
        from IPython.display import display

        data = {"text/html": html, "text/plain": text}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def can_press() -> bool:
    """Tell whether a button can be shown: in a kernel, with ipywidgets, and somebody there to press it."""
    if "NBGRADER_EXECUTION" in os.environ:
        return False
    return _in_kernel() and importlib.util.find_spec("ipywidgets") is not None


def hint_button(name: str, next_hint: Callable[[], str]) -> None:
    """Show a button that puts the next hint for part `name` (HTML) under it."""
    import ipywidgets
    from IPython.display import display

    as_wide_as_its_words = ipywidgets.Layout(width="max-content")
    button = ipywidgets.Button(
        description=reader().say(f"Hint for {name}"), icon="lightbulb-o", layout=as_wide_as_its_words
    )
    place = ipywidgets.HTML()

    def press(_: Any) -> None:
        place.value = next_hint()
        button.description = reader().say(f"More about {name}")

    button.on_click(press)
    display(ipywidgets.VBox([button, place]))


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
