"""Output under a cell: HTML with its plain text, and a button where the notebook has widgets."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from typing import Any


def show(html: str, text: str) -> None:
    """Show `html` under the running cell, or print `text` where nothing can show HTML."""
    if _in_kernel():
        from IPython.display import display

        display({"text/html": html, "text/plain": text}, raw=True)
    else:
        print(text)


def can_press() -> bool:
    """Tell whether a button can be shown: in a kernel, with ipywidgets, and somebody there to press it."""
    if "NBGRADER_EXECUTION" in os.environ:
        return False
    return _in_kernel() and importlib.util.find_spec("ipywidgets") is not None


def hint_button(name: str, next_hint: Callable[[], str]) -> None:
    """Show a button that puts the next hint for part `name` (HTML) under it."""
    import ipywidgets
    from IPython.display import display

    button = ipywidgets.Button(description=f"Hint for {name}", icon="lightbulb-o")
    place = ipywidgets.HTML()

    def press(_: Any) -> None:
        place.value = next_hint()
        button.description = f"More about {name}"

    button.on_click(press)
    display(ipywidgets.VBox([button, place]))


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
