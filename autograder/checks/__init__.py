"""The checks. Importing this package registers them all; autograder/tracks/*.toml says what each is worth."""

from autograder.checks import attention, block, conduct, config, gpt, gradients, layer, loss, tensors, tying, whole
from autograder.checks.registry import CHECKS, Check, Outcome, Stopped, check

__all__ = [
    "CHECKS",
    "Check",
    "Outcome",
    "Stopped",
    "attention",
    "block",
    "check",
    "conduct",
    "config",
    "gpt",
    "gradients",
    "layer",
    "loss",
    "tensors",
    "tying",
    "whole",
]
