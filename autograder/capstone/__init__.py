"""The capstone: a corpus, the training of the GPT that a student wrote, checkpoints, and samples."""

from pathlib import Path

#: Where every command looks for the corpus; git ignores it.
CORPUS = Path("data/corpus")
