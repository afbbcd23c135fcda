"""The course in a notebook: `from autograder.jupyter import check, hint, picture, train`."""

from autograder.jupyter.checking import check, hint
from autograder.jupyter.influence import picture
from autograder.jupyter.modules import import_parts
from autograder.jupyter.scoring import score
from autograder.jupyter.training import generate, train

__all__ = ["check", "generate", "hint", "import_parts", "picture", "score", "train"]
