"""The checks, one module a part. Importing this package registers them all."""

from autograder.checks import attention, block, config, gpt, layer
from autograder.checks.registry import CHECKS, Check, Outcome, Stopped, check

__all__ = ["CHECKS", "Check", "Outcome", "Stopped", "attention", "block", "check", "config", "gpt", "layer"]
