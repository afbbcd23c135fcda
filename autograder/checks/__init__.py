"""The checks. Importing this package registers them all; autograder/tracks/*.toml says what each is worth."""

from autograder.checks import (
    attention,
    backbone,
    block,
    conduct,
    config,
    gpt,
    gradients,
    layer,
    loss,
    tensors,
    tying,
    whole,
)
from autograder.checks.registry import CHECKS, Check, Outcome, Stopped, check, find_check

__all__ = [
    "CHECKS",
    "Check",
    "Outcome",
    "Stopped",
    "attention",
    "backbone",
    "block",
    "check",
    "conduct",
    "config",
    "find_check",
    "gpt",
    "gradients",
    "layer",
    "loss",
    "tensors",
    "tying",
    "whole",
]
