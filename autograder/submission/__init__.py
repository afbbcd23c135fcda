"""Submission intake: a folder, model.py, notebook, zip or tar in; one clean tree of sources with its SHA-256 out."""

from autograder.submission.intake import read_submission
from autograder.submission.roster import IntakeError, find_submissions
from autograder.submission.tree import Submission, write_tree

__all__ = ["IntakeError", "Submission", "find_submissions", "read_submission", "write_tree"]
