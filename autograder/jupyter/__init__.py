"""The course in a notebook: `from autograder.jupyter import check, hint, picture`."""

from autograder.jupyter.checking import check, hint
from autograder.jupyter.influence import picture
from autograder.jupyter.modules import import_parts
from autograder.jupyter.scoring import score

__all__ = ["check", "hint", "import_parts", "picture", "score"]
