"""From one source to all that students get: solutions/ -> the stubs and the notebooks in exercises/."""

from autograder.authoring.build import Change, build, stale
from autograder.authoring.regions import AuthoringError

__all__ = ["AuthoringError", "Change", "build", "stale"]
