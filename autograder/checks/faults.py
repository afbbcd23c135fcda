"""A student's exception as an outcome: what was raised, on which line, and what to look at."""

from __future__ import annotations

from autograder.checks.registry import Outcome
from autograder.probe.faults import Fault
from autograder.verdict import Evidence, Verdict

#: Part of a message (in lower case) -> what to look at: the errors that students meet most.
ADVICE = (
    (
        "views and is being modified inplace",
        "Write q = q * scale instead of q *= scale: autograd forbids changing a view of a split.",
    ),
    ("modified by an inplace", "Do not change a tensor in place that the backward pass needs."),
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


def fault_outcome(fault: Fault, class_name: str = "") -> Outcome:
    """Return the outcome of an exception in `class_name` (or, without a name, of the file)."""
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
    return Outcome(Verdict.CRASHED, message, _advice(fault.type, said), exhibits)


def _advice(kind: str, message: str) -> str:
    for fragment, sentence in ADVICE:
        if fragment in message.lower():
            return sentence
    if kind == "AttributeError":
        return "Check the spelling, and that __init__ sets this attribute."
    return "Run the class by hand on a small input and read the traceback."
