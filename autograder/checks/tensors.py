"""The check of a model's tensors: names, shapes, nothing missing, extra, shared, frozen or dead."""

from __future__ import annotations

from autograder.checks.evidence import (
    shape_text,
    table,
)
from autograder.checks.exam import Exam
from autograder.checks.registry import Outcome, check, failed, passed
from autograder.checks.replies import Parameter
from autograder.oracle.cases import Sizes
from autograder.oracle.reference import count
from autograder.probe.standins import WEIGHT_NAMES
from autograder.track import Part, Shape


@check("*.parameters", needs=["builds"])
def it_has_the_right_tensors(exam: Exam, part: Part) -> Outcome:
    """Its tensors have the contract's names and shapes, and can be trained."""
    sizes = exam.draws.sizes(f"{part.name} parameters", n_head=3, head_dim=10, length=7, n_layer=2)
    how = exam.approach(part)
    model = exam.build(part, sizes, look=True)
    shapes = exam.shapes(part, sizes.config)
    own = {p.name: p for p in model.parameters}
    frozen = [shown(name) for name, parameter in own.items() if not parameter.trainable]
    if part.uses and not how.renamed and exam.repeated(part):
        # How many blocks there are is another check's business; that they are found in the right place is shown by one.
        own = {name: p for name, p in own.items() if not _inside_used(part, name, sizes)}
        shapes = {name: shape for name, shape in shapes.items() if not _inside_used(part, name, sizes)}
    exhibit = table("Tensors", ["name", "expected", "yours", ""], _rows(shapes, own))
    if how.renamed:
        return failed(
            _names_differ(part, shapes, own),
            "Rename or regroup the layers as the contract in the stub says.",
            [exhibit],
            usable=True,
        )
    missing = [name for name in shapes if name not in own]
    wrong = [name for name in shapes if name in own and own[name].shape != shapes[name]]
    extra = [name for name in own if name not in shapes]
    if wrong:
        name = wrong[0]
        return failed(
            f"{name} has shape {shape_text(own[name].shape)}; expected {shape_text(shapes[name])}.",
            _shape_hint(exam, name, shapes[name]),
            [exhibit],
        )
    if missing:
        biases_only = all(name.endswith("bias") for name in missing)
        hint = (
            "nn.Linear and nn.LayerNorm have a bias unless you pass bias=False."
            if biases_only
            else "Check the names in __init__; a plain list hides layers, elementwise_affine=False a norm's weights."
        )
        others = f" (found instead: {_listed(extra)})" if extra else ""
        return failed(f"Missing: {_listed(missing)}{others}.", hint, [exhibit], usable=biases_only)
    if extra:
        return failed(
            f"Extra: {_listed(extra)}, which the contract does not have.",
            "Leave it out: pass bias=False, or delete the layer.",
            [exhibit],
            usable=True,
        )
    shared = _shared(own, exam.track.tables.ends)
    if shared:
        return failed(
            f"{shared[0]} and {shared[1]} are one and the same parameter.",
            "Build a layer for each: two calls of the constructor.",
            [exhibit],
            usable=True,
        )
    if frozen:
        return failed(
            f"{frozen[0]} is frozen (requires_grad is False): it would never be trained.",
            "Drop requires_grad=False.",
            [exhibit],
            usable=True,
        )
    if model.odd:
        return failed(
            f"{model.odd[0]} from the start; weights start in float32.",
            "Leave casts to the caller: no .half(), .double() or .to(dtype) in __init__.",
            [exhibit],
            usable=True,
        )
    dead = _dead(own)
    if dead:
        return failed(
            dead,
            "Leave the weights to PyTorch's own initialisation, or draw them with a small std such as 0.02.",
            [exhibit],
            usable=True,
        )
    return passed(f"{count(shapes):,} numbers in {len(shapes)} tensors.", [exhibit])


def _inside_used(part: Part, name: str, sizes: Sizes) -> bool:
    prefixes = tuple(path.split("{i}")[0] for path in part.uses)
    return name.startswith(prefixes) if prefixes else False


def _shape_hint(exam: Exam, name: str, shape: Shape) -> str:
    """Return what to look at when a tensor has the wrong shape, by the kind of layer."""
    if len(shape) == 1 and f"{name.rpartition('.')[0]}.weight" in _norms(exam):
        return "LayerNorm's shape is n_embd alone: each token is normalised by itself."
    if name in (exam.track.tables.tokens, exam.track.tables.positions):
        return "nn.Embedding(rows, n_embd): vocab_size rows for tokens, block_size rows for positions."
    return "nn.Linear(a, b).weight has shape (b, a): check the two sizes, and that they come from config."


def _norms(exam: Exam) -> set[str]:
    """Return the gains of all norms: the only weights that are vectors."""
    return {
        name
        for part in exam.track.parts
        for name, shape in part.shapes(exam.track.config).items()
        if len(shape) == 1 and name.endswith("weight")
    }


def shown(name: str) -> str:
    """Return a tensor's name for the student: one that belongs to a stand-in is shown as "attn.*"."""
    prefix, _, leaf = name.rpartition(".")
    return f"{prefix}.*" if leaf in WEIGHT_NAMES.values() else name


def _listed(names: list[str]) -> str:
    names = [shown(name) for name in names]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _rows(shapes: dict[str, Shape], own: dict[str, Parameter]) -> list[list[str]]:
    rows = []
    for name in dict.fromkeys([*shapes, *own]):
        mine = own.get(name)
        wanted = shapes.get(name)
        mark = (
            "ok"
            if mine is not None and mine.shape == wanted
            else "missing"
            if mine is None
            else "extra"
            if wanted is None
            else "shape"
        )
        rows.append([shown(name), shape_text(wanted) if wanted else "-", shape_text(mine.shape) if mine else "-", mark])
    return rows[:60]


def _names_differ(part: Part, shapes: dict[str, Shape], own: dict[str, Parameter]) -> str:
    missing = [name for name in shapes if name not in own or own[name].shape != shapes[name]]
    extra = [name for name in own if name not in shapes] or [name for name in missing if name in own]
    expected = ", ".join(f"{shown(name)} {shape_text(shapes[name])}" for name in missing[:3])
    found = ", ".join(f"{shown(name)} {shape_text(own[name].shape)}" for name in extra[:4])
    more = ", ..." if len(missing) > 3 or len(extra) > 4 else ""
    return f"Names differ: expected {expected}; found {found}{more}."


def _shared(own: dict[str, Parameter], ends: tuple[str, ...]) -> tuple[str, str] | None:
    """Return two names of one parameter, but for table and head: whether they are one is another check's business."""
    first: dict[int, str] = {}
    for name, parameter in own.items():
        other = first.setdefault(parameter.group, name)
        if other != name and {other, name} != set(ends):
            return other, name
    return None


def _dead(own: dict[str, Parameter]) -> str:
    """Return a sentence when the model starts with values from which nothing can be learned."""
    broken = [p.name for p in own.values() if not p.finite]
    silent = [p.name for p in own.values() if p.zero and len(p.shape) == 1 and p.name.endswith("weight")]
    if silent:
        return f"{silent[0]} starts at zero: LayerNorm's gain starts at one, or nothing comes through."
    if broken:
        return f"{broken[0]} starts with NaN or infinity in it."
    matrices = [p for p in own.values() if len(p.shape) == 2]
    dead = [p.name for p in matrices if p.std == 0.0]
    if matrices and len(dead) == len(matrices):
        return f"All weight matrices start constant ({dead[0]} has std 0): nothing can be learned from there."
    return ""
