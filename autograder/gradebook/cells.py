"""What the assignment's notebook and its cells are called: nbgrader knows a cell by its id, and so do we."""

from __future__ import annotations

from autograder.track import Part, Track


def notebook_name(track: Track) -> str:
    """Return the name of the assignment's notebook, without its ending: "model"."""
    return track.single_file.removesuffix(".py")


def grade_cell(part: Part) -> str:
    """Return the id of the cell that gives a part its points."""
    return f"{part.name}-score"


def answer_cell(part: Part) -> str:
    """Return the id of the cell with a part's class."""
    return f"{part.name}-answer"
