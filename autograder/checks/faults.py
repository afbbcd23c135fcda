"""A student's exception as an outcome: what was raised, on which line, and what to look at."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Mapping

from autograder.checks.registry import Outcome
from autograder.probe.faults import Fault
from autograder.verdict import Evidence, Verdict

#: Part of a message (in lower case) -> what to look at: the errors that students meet most.
ADVICE = (
    (
        "is being modified inplace",
        "Write q = q * scale instead of q *= scale: autograd forbids changing a view of a split.",
    ),
    ("modified by an inplace", "Do not change a tensor in place that the backward pass needs."),
    ("before module.__init__() call", "Call super().__init__() first in __init__: nn.Module keeps its parts there."),
    (
        "expected size for first two dimensions",
        "The inner sizes of this matrix product do not fit: is transpose(-2, -1) missing, or on other axes?",
    ),
    ("mat1 and mat2", "The layer's input width does not fit: check the sizes given to nn.Linear."),
    ("truth value", "A tensor of many numbers has no single truth value: write `is not None`."),
    ("boolean value of tensor", "A tensor of many numbers has no single truth value: write `is not None`."),
    ("expected target size", "cross_entropy wants the classes in dimension 1: flatten to (B*T, V) and (B*T)."),
    (
        "does not require grad",
        "Something cut the graph: look for detach(), .data, .item(), NumPy or no_grad().",
    ),
    ("index out of range", "An index is larger than its table: check positions and token ids."),
    ("not enough values to unpack", "The number of names on the left does not fit the number of dimensions."),
    ("too many values to unpack", "The number of names on the left does not fit the number of dimensions."),
    ("same device", "Make new tensors with device=x.device."),
    ("dtype", "Make new tensors with dtype=x.dtype, or convert with .to(x.dtype)."),
    ("shape", "Print the shapes on that line and compare them with the contract in the stub."),
    ("size of tensor", "Print the shapes on that line and compare them with the contract in the stub."),
)

#: Words of the errors in which torch names shapes that do not fit.
SHAPE_ERRORS = ("is invalid for input of size", "The size of tensor a", "Expected size for first two dimensions")
#: Sizes of axes that are joined, cut or widened.
JOINED = ("B", "T", "C", "n_head", "head_dim")
#: Numbers in them that are no sizes: how many values there are, and which axis is meant.
SET_ASIDE = r"input of size \d+|dimension \d+"

#: Exception -> what to do about a file that does not load for it.
IMPORT_ADVICE = {
    "EOFError": "Remove input(): nobody sits at the keyboard when the file is graded.",
    "SystemExit": "Remove sys.exit() and exit(), or put them under if __name__ == '__main__':.",
    "FileNotFoundError": "Reading data belongs in the training script, not at the top of the file.",
    "SyntaxError": "Python cannot read the file: look at that line and the one before.",
    "IndentationError": "Python cannot read the file: look at how far that line and the one before are indented.",
    "TabError": "Indent with tabs or with spaces, not with both.",
}


def fault_outcome(fault: Fault, class_name: str = "", sizes: Mapping[str, int] | None = None) -> Outcome:
    """Return the outcome of an exception in `class_name` (or, without a name, of the file).

    `sizes` are those of the call: a number in the message that is none of them was probably written into the code.
    """
    place = {"build": "__init__", "forward": "forward", "backward": "backward"}.get(fault.stage, fault.stage)
    owner = f"{class_name}.{place}" if class_name else place
    if fault.not_implemented:
        return Outcome(
            Verdict.NOT_ATTEMPTED, f"{owner} is not written yet.", "Fill in the stub; its docstring gives the shapes."
        )
    if fault.memory:
        return Outcome(
            Verdict.OUT_OF_MEMORY, f"{owner} runs out of memory.", "Look for a tensor that is far too large."
        )
    where = f" (line {fault.line} of {fault.file})" if fault.line else ""
    exhibits: tuple[Evidence, ...] = ()
    if fault.line:
        line = {"file": fault.file, "line": fault.line, "text": fault.source}
        exhibits = (Evidence("code", "Where it happens", line),)
    said = fault.message.strip()
    subject = "The backward pass" if fault.stage == "backward" else owner
    message = f"{subject} raises {fault.type}{where}: {said}" if said else f"{subject} raises {fault.type}{where}."
    return Outcome(Verdict.CRASHED, message, _written_in(said, sizes or {}) or _advice(fault.type, said), exhibits)


def import_outcome(fault: Fault, file: str) -> Outcome:
    """Return the outcome for the classes of a file that does not load."""
    outcome = fault_outcome(fault)
    if outcome.verdict is Verdict.NOT_ATTEMPTED:
        return Outcome(
            Verdict.CRASHED,
            f"{file} raises NotImplementedError when it is imported.",
            "Only the bodies of methods may be left open.",
            outcome.evidence,
        )
    if outcome.verdict is Verdict.OUT_OF_MEMORY:
        return Outcome(outcome.verdict, f"{file} runs out of memory when it is imported.", outcome.look_at)
    raised = outcome.message.removeprefix("import raises ")
    message = outcome.message if raised == outcome.message else f"{file} does not load: it raises {raised}"
    return Outcome(outcome.verdict, message, _import_advice(fault), outcome.evidence)


def _import_advice(fault: Fault) -> str:
    if fault.type == "ModuleNotFoundError":
        name = fault.message.partition("'")[2].partition("'")[0].partition(".")[0]
        known = ["torch", "numpy", *sys.stdlib_module_names]
        meant = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
        hint = f"Did you mean {meant[0]}? " if meant else ""
        return f"{hint}Torch, numpy, the standard library and the files you hand in are all there is."
    if "partially initialized module" in fault.message:
        return "Two files import each other, or a file imports itself: put the shared code in one of them."
    return IMPORT_ADVICE.get(fault.type, "Import the file by hand and read the last lines of the traceback.")


def _written_in(message: str, sizes: Mapping[str, int]) -> str:
    """Name a number in an error about shapes that no size of the call explains, nor a product of two of them."""
    if not sizes or not any(words in message for words in SHAPE_ERRORS):
        return ""
    joined = [sizes[name] for name in JOINED if name in sizes]
    known = {1, 2, 3, 4, *sizes.values(), *(factor * side for factor in (3, 4) for side in joined)}
    known |= {a * b for a in joined for b in joined}
    found = [int(n) for n in re.findall(r"\d+", re.sub(SET_ASIDE, "", message))]
    odd = [number for number in found if number not in known]
    if not odd:
        return ""
    here = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    return f"{odd[0]} is no size of this call ({here}): is it written as a number? Take sizes from config or x.shape."


def _advice(kind: str, message: str) -> str:
    for fragment, sentence in ADVICE:
        if fragment in message.lower():
            return sentence
    if kind == "AttributeError":
        return "Check the spelling, and that __init__ sets this attribute."
    return "Run the class by hand on a small input and read the traceback."
