"""What a submission may hold at most, and `Refused`: the one sentence that says why it is not read."""

from __future__ import annotations

from autograder.verdict import Verdict

MB = 1_000_000

#: One source file. Our own answer is under 10 kB; a megabyte of Python is data in disguise.
MAX_SOURCE = 1 * MB
#: All sources of one submission together, so that many files below the cap cannot fill the grader's memory.
MAX_TREE = 20 * MB
#: Notebooks carry their outputs (pictures, logs), so they are given more room than the code in them needs.
MAX_NOTEBOOK = 64 * MB
#: Values in a notebook's JSON. An empty list of two bytes costs 56 in memory: this keeps 64 MB of text below 300 MB.
MAX_NOTEBOOK_VALUES = 4_000_000
#: Any file, by its size on disk, before the first byte is read. Archives are held in memory up to here.
MAX_FILE = 100 * MB
#: Files and folders in one submission. A repository with its history has hundreds; a virtual environment has 10,000.
MAX_FILES = 2_000
#: Folders above a file. Deeper trees are made by loops or on purpose.
MAX_DEPTH = 8
#: An archive's contents, unpacked. Gradescope gives the whole grader 768 MB.
MAX_UNPACKED = 128 * MB
#: Unpacked size over packed size. Source code packs about 5:1 and a CSV file 20:1; a bomb 1000:1 and more...
MAX_RATIO = 200
#: ...which is of no interest below this size: a short file of blanks packs as well.
RATIO_FLOOR = 10 * MB


class Refused(Exception):
    """The submission, or the one file in it that counts, is not read. The message is a sentence for the student."""

    def __init__(self, sentence: str, verdict: Verdict = Verdict.FORBIDDEN) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.verdict = verdict


def too_large(name: str, limit: int) -> Refused:
    """Return the refusal of a file called `name` that is larger than `limit` bytes."""
    return Refused(f"{name} is too large (at most {limit // MB} MB).")
