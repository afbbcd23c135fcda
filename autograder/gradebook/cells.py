"""What the assignment's notebook and its cells are called: nbgrader knows a cell by its id, and so do we."""

from __future__ import annotations

from autograder.track import DEFAULT, Part, Track


def notebook_name(track: Track) -> str:
    """Return the name of the assignment's notebook, without its ending: "model"."""
    return track.single_file.removesuffix(".py")


def grade_cell(part: Part) -> str:
    """Return the id of the cell that gives a part its points."""
    return f"{part.name}-score"


def answer_cell(part: Part) -> str:
    """Return the id of the cell with a part's class."""
    return f"{part.name}-answer"


def options(track: Track) -> str:
    """Return the options that make a command mean this course and these parts: " --track foundations", or nothing."""
    course = "" if track.name == DEFAULT else f" --track {track.name}"
    return course + (f" --parts {','.join(track.chosen)}" if track.chosen else "")
