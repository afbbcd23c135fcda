"""Where student code runs: Limits, Isolation, Nursery. Importing this imports no torch."""

from autograder.sandbox.nursery import Nursery
from autograder.sandbox.policy import Isolation, Limits

__all__ = ["Isolation", "Limits", "Nursery"]
