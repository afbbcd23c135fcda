"""Checks that every layer gets: it builds, has the right tensors and shapes, gives the right numbers and gradients,
keeps its hands off what is not its own, and follows dtype and device."""

from __future__ import annotations

from torch import Tensor

from autograder.checks.evidence import (
    GRADIENT_TOLERANCE,
    compare,
    describe_difference,
    numbers,
    same,
    shape_text,
    table,
)
from autograder.checks.exam import TABLE, Exam, Specimen
from autograder.checks.registry import Outcome, Stopped, check, failed, passed
from autograder.checks.student import CALL_SEED, Answer, Model, Parameter
from autograder.oracle.cases import Sizes
from autograder.oracle.reference import count
from autograder.probe.standins import WEIGHT_NAMES
from autograder.track import Part, Shape
from autograder.verdict import Verdict

AXES = ("batch row", "position", "channel")


@check("attention.builds", "mlp.builds", "block.builds", "gpt.builds")
def it_builds(exam: Exam, part: Part) -> Outcome:
    """It can be built from a config."""
    facts = exam.student.facts.get(part.class_name, {})
    if not facts.get("is_class", True):
        return failed(
            f"{part.class_name} must be a class (nn.Module), not a function.",
            f"class {part.class_name}(nn.Module): ...",
        )
    if not facts.get("is_module", True):
        return failed(f"{part.class_name} must inherit from nn.Module.", f"class {part.class_name}(nn.Module): ...")
    stub = facts.get("stub", {})
    if facts.get("empty") or (stub.get("__init__") and stub.get("forward")):
        return Outcome(
            Verdict.NOT_ATTEMPTED,
            f"{part.class_name} is not written yet.",
            f"Fill in {part.class_name} in {facts.get('file')}.",
        )
    how = exam.approach(part)
    for trial in range(2):
        exam.student.forget(exam.build(part, exam.draws.sizes(f"builds {trial}")))
    if how.interface != "config":
        signature = exam.student.signature(part, exam.track.config) or {"all": []}
        arguments = ", ".join(signature["all"])
        return failed(
            f"Interface differs: {part.class_name} takes ({arguments}); it should take the config object, {part.class_name}(config).",
            "Read n_embd, n_head and the rest from config inside __init__.",
            usable=True,
        )
    return passed()


@check("attention.parameters", "mlp.parameters", "block.parameters", "gpt.parameters", needs=["builds"])
def it_has_the_right_tensors(exam: Exam, part: Part) -> Outcome:
    """Its tensors have the contract's names and shapes, and can be trained."""
    sizes = exam.draws.sizes(f"{part.name} parameters", n_head=3, head_dim=10, length=7, n_layer=2)
    how = exam.approach(part)
    model = exam.build(part, sizes)
    shapes = exam.shapes(part, sizes.config, how.stand_ins)
    own = {p.name: p for p in model.parameters if how.stand_ins or not _inside_used(part, p.name, sizes)}
    if part.uses and not how.renamed and exam.repeats(part):
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
            "nn.Linear(a, b).weight has shape (b, a): check the two sizes, and that they come from config.",
            [exhibit],
        )
    if missing:
        biases_only = all(name.endswith("bias") for name in missing)
        hint = (
            "nn.Linear has a bias unless you pass bias=False."
            if biases_only
            else "Check the names of the attributes in __init__; a plain Python list hides its layers."
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
    shared = _shared(own)
    if shared:
        return failed(
            f"{shared[0]} and {shared[1]} are one and the same parameter.",
            "Build a layer for each: two calls of the constructor.",
            [exhibit],
            usable=True,
        )
    frozen = [name for name, parameter in own.items() if not parameter.trainable]
    if frozen:
        return failed(
            f"{frozen[0]} is frozen (requires_grad is False): it would never be trained.",
            "Drop requires_grad=False.",
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
    lie = model.claimed
    if lie is not None and lie != model.total:
        return failed(
            f"{part.class_name}.parameters() claims {lie:,} parameters; the model has {model.total:,}.",
            "Do not override parameters().",
            [exhibit],
        )
    return passed(f"{count(shapes):,} numbers in {len(shapes)} tensors.", [exhibit])


@check("attention.shapes", "mlp.shapes", "block.shapes", needs=["builds"])
def it_keeps_the_shape(exam: Exam, part: Part) -> Outcome:
    """(B, T, C) in, (B, T, C) out."""
    for trial in range(2):
        sizes = exam.draws.sizes(f"{part.name} shapes {trial}")
        model = exam.build(part, sizes)
        problem = _wrong_output(exam, part, model, sizes, f"{part.name} shapes {trial}")
        if problem is not None:
            return problem
    return passed()


@check("attention.sizes", "mlp.sizes", "block.sizes", needs=["shapes"])
def it_takes_every_size(exam: Exam, part: Part) -> Outcome:
    """It takes every batch size and every length from 1 to block_size."""
    for label, sizes in extremes(exam, part):
        try:
            model = exam.build(part, sizes)
            problem = _wrong_output(exam, part, model, sizes, f"{part.name} {label}")
        except Stopped as stopped:
            problem = stopped.outcome
        if problem is not None:
            return Outcome(
                problem.verdict, f"With {label}: {problem.message}", problem.look_at, problem.evidence, usable=True
            )
    return passed()


def extremes(exam: Exam, part: Part) -> list[tuple[str, Sizes]]:
    """Return sizes at the edges: each with the words that name it."""
    draw = exam.draws.sizes
    full = draw(f"{part.name} full")
    return [
        ("T = 1", draw(f"{part.name} one", length=1)),
        ("B = 1", draw(f"{part.name} single", batch=1)),
        ("B = 1 and T = 1", draw(f"{part.name} both", batch=1, length=1)),
        ("T = block_size", Sizes(full.config, full.batch, full.config["block_size"])),
        (
            "block_size = 300 and T = 300",
            draw(f"{part.name} long", batch=1, length=300, block_size=300, n_head=2, head_dim=4),
        ),
    ]


@check("attention.values", "mlp.values", "block.values", needs=["shapes", "parameters"])
def it_gives_the_right_numbers(exam: Exam, part: Part) -> Outcome:
    """Its output equals the reference's under hidden weights and inputs."""
    worst = 0.0
    for trial, sizes in enumerate(value_sizes(exam, part)):
        specimen = exam.specimen(part, sizes, f"{part.name} values {trial}")
        inputs = exam.inputs(part, sizes, f"{part.name} values {trial}")
        expected = exam.expect(specimen, inputs)
        output = first_output(exam, part, exam.ask(specimen, inputs))
        difference = compare(output, _tensor(expected.outputs[0]))
        worst = max(worst, difference.ratio)
        if not difference.ok:
            sentence, exhibit = describe_difference(difference, AXES)
            known = exam.diagnose(specimen, inputs, output)
            message = known.sentence if known else f"The output is not what {part.class_name} should give: {sentence}."
            return failed(
                message,
                known.look_at if known else f"Compare your forward with the formula of {part.class_name} step by step.",
                [exhibit],
            )
    return passed(evidence=[numbers("Largest difference from the reference, relative", ratio=worst)])


def value_sizes(exam: Exam, part: Part) -> list[Sizes]:
    """Return the sizes on which outputs are compared: different head counts, widths and lengths."""
    draw = exam.draws.sizes
    label = f"{part.name} values"
    return [
        draw(f"{label} 0", n_head=3, head_dim=10, length=7),
        draw(f"{label} 1", n_head=5, head_dim=4, length=11, n_layer=3),
        draw(f"{label} 2", n_head=1, head_dim=12, length=9, block_size=31),
        draw(f"{label} 3", n_head=2, head_dim=6, length=14, block_size=14),
    ]


@check("attention.gradients", "mlp.gradients", "block.gradients", needs=["shapes", "parameters"])
def gradients_reach_everything(exam: Exam, part: Part) -> Outcome:
    """Gradients of the input and of every parameter are right."""
    sizes = exam.draws.sizes(f"{part.name} gradients", n_head=3)
    specimen = exam.specimen(part, sizes, f"{part.name} gradients")
    inputs = exam.inputs(part, sizes, f"{part.name} gradients")
    cotangent = exam.draws.normal(f"{part.name} cotangent", tuple(inputs["x"].shape))
    expected = exam.expect(specimen, inputs, cotangent=cotangent)
    answer = exam.ask(specimen, inputs, cotangent=cotangent, train=True)
    return compare_gradients(exam, specimen, answer, expected.gradients, inputs, cotangent)


def compare_gradients(
    exam: Exam,
    specimen: Specimen,
    answer: Answer,
    expected: dict[str, Tensor],
    inputs: dict[str, Tensor],
    cotangent: Tensor | None,
) -> Outcome:
    """Compare every gradient; a tensor that the student lacks is another check's business.

    Gradients follow the numbers: where those are wrong already, it only counts whether any gradient arrives at all. A
    frozen tensor costs its points in `parameters`.
    """
    output_right = _output_right(exam, specimen, answer, inputs)
    tensors = {
        **{f"input.{name}": value for name, value in inputs.items() if value.is_floating_point()},
        **specimen.weights,
    }
    rows, bad = [], []
    for name in tensors:
        row = specimen.model.find(name)
        if name not in expected or name == TABLE or (row is not None and not row.trainable):
            continue
        reference = expected[name]
        mine = answer.gradients.get(name)
        size = float(reference.abs().max())
        if mine is None:
            bad.append((name, "has no gradient"))
            rows.append([name, "none", f"{size:.4g}"])
            continue
        mine_size = float(mine.double().abs().max())
        rows.append([name, f"{mine_size:.4g}", f"{size:.4g}"])
        difference = compare(mine, reference, GRADIENT_TOLERANCE) if mine.shape == reference.shape else None
        if mine_size == 0.0 and size > 1e-9:
            bad.append((name, "gets a gradient of zero"))
        elif output_right and (difference is None or not difference.ok):
            bad.append((name, "gets a wrong gradient"))
    if not bad or (not output_right and len(bad) < len(rows)):
        return passed()
    name, what = bad[0]
    label = "the input" if name.startswith("input.") else name
    others = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return failed(
        f"{label} {what}{others}: training would not move what it should.",
        "Something cuts or bends the graph: look for detach(), .data, NumPy, no_grad(), or a frozen or padded table.",
        [table("Largest gradient", ["tensor", "yours", "expected"], rows)],
        usable=True,
    )


def _output_right(exam: Exam, specimen: Specimen, answer: Answer, inputs: dict[str, Tensor]) -> bool:
    expected = exam.expect(specimen, {name: value for name, value in inputs.items() if name != "targets"}).outputs[0]
    output = answer.outputs[0] if answer.outputs else None
    return (
        isinstance(output, Tensor)
        and expected is not None
        and output.shape == expected.shape
        and compare(output, expected).ok
    )


@check("attention.train_mode", "mlp.train_mode", "block.train_mode", "gpt.train_mode", needs=["shapes"])
def training_changes_nothing(exam: Exam, part: Part) -> Outcome:
    """train() and eval() give the same numbers, and no randomness."""
    sizes = exam.draws.sizes(f"{part.name} train")
    model = exam.build(part, sizes)
    inputs = exam.inputs(part, sizes, f"{part.name} train")
    still = first_output(exam, part, exam.student.call(part, model, inputs))
    model = exam.build(part, sizes)
    for train in (False, True):
        answer = exam.student.call(part, model, inputs, train=train, seed=1)
        again = exam.student.call(part, model, inputs, train=train, seed=2)
        first, second = first_output(exam, part, answer), first_output(exam, part, again)
        mode = "train" if train else "eval"
        if answer.random and not same(first, second):
            return failed(
                f"In {mode} mode the output is random: two equal calls differ by up to {float((first - second).abs().max()):.3g}.",
                "The contract has no dropout and no noise: drop it, or let it default to 0."
                if train
                else "F.dropout and dropout_p are always on unless you pass training=self.training; the contract has no dropout at all.",
            )
        if train and not same(first, still, 1e-5):
            sentence, exhibit = describe_difference(compare(first, still, 1e-5), AXES)
            return failed(
                f"train() and eval() give different numbers: {sentence}.",
                "Nothing here depends on self.training.",
                [exhibit],
            )
    return passed()


@check("attention.pure", "mlp.pure", "block.pure", "gpt.pure", needs=["shapes"])
def a_call_leaves_no_trace(exam: Exam, part: Part) -> Outcome:
    """A call changes neither its input nor the model, and remembers nothing."""
    sizes = exam.draws.sizes(f"{part.name} pure")
    model = exam.build(part, sizes)
    inputs = exam.inputs(part, sizes, f"{part.name} pure")
    shorter = {name: value[:, : sizes.length - 3].contiguous() for name, value in inputs.items()}
    fewer = {name: value[: sizes.batch - 1].contiguous() for name, value in inputs.items()}
    first = exam.student.call(part, model, inputs, observe=True)
    problem = _traces(part, first, inputs, "forward")
    if problem is not None:
        return problem
    reference = first_output(exam, part, first)
    for trial in (inputs, shorter, fewer, inputs):
        again = first_output(exam, part, exam.student.call(part, model, trial, observe=True))
        fresh = exam.build(part, sizes)
        alone = first_output(exam, part, exam.student.call(part, fresh, trial))
        exam.student.forget(fresh)
        if not same(again, alone, 1e-5):
            return failed(
                "A second call gives another answer than the first: the layer remembers something from the call before.",
                "forward must not keep state: no cache of keys, values or outputs on self.",
            )
    reseeded = exam.student.call(part, model, inputs, seed=CALL_SEED + 1)
    if reseeded.random and same(first_output(exam, part, reseeded), reference):
        return failed(
            "forward changes the global random state.",
            "Do not call torch.manual_seed, or draw numbers, inside the model.",
        )
    cotangent = exam.draws.normal(f"{part.name} pure cotangent", tuple(reference.shape))
    try:
        trained = exam.student.call(part, model, inputs, observe=True, train=True, cotangent=cotangent)
    except Stopped:
        return passed("Training mode could not be seen: the check of gradients tells why.")
    return _traces(part, trained, inputs, "forward in train mode") or passed()


def _traces(part: Part, answer: Answer, inputs: dict[str, Tensor], when: str) -> Outcome | None:
    for name, value in inputs.items():
        after = answer.after.get(name)
        if after is not None and (after.shape != value.shape or not bool((after == value).all())):
            return failed(
                f"{part.class_name}.{when} changes its input {name} in place.",
                f"Write to a new tensor ({name} = {name} - ...), not to the caller's ({name} -= ..., {name}.zero_()).",
            )
    if answer.changed:
        return failed(
            f"{when} changes the saved tensor {answer.changed[0]}.",
            "Only the optimizer changes weights; LayerNorm keeps no running statistics.",
        )
    if answer.mode_changed:
        return failed(f"{when} switches train/eval mode.", "Leave train() and eval() to the caller.")
    return None


@check("attention.follows", "mlp.follows", "block.follows", "gpt.follows", needs=["shapes"])
def it_follows_dtype_and_device(exam: Exam, part: Part) -> Outcome:
    """It works in float64 and on another device."""
    sizes = exam.draws.sizes(f"{part.name} follows")
    inputs = exam.inputs(part, sizes, f"{part.name} follows")
    for dtype in ("float32", "float64"):
        model = exam.build(part, sizes, dtype=dtype)
        given = {n: v.double() if dtype == "float64" and v.is_floating_point() else v for n, v in inputs.items()}
        try:
            answer = exam.student.call(part, model, given)
        except Stopped as stopped:
            problem = stopped.outcome
            return Outcome(
                problem.verdict,
                f"After model.to(torch.{dtype}): {problem.message}",
                "Make new tensors with dtype=x.dtype, and leave casts to the caller.",
                problem.evidence,
            )
        if answer.dtypes[0] != dtype:
            return failed(
                f"Given {dtype}, it returns {answer.dtypes[0]}.",
                "Return the dtype that came in: no .double(), .float() or .half() on the result.",
            )
    model = exam.build(part, sizes)
    answer = exam.student.call(part, model, inputs, moved=True)
    if answer.device_faults:
        return _left_behind(answer.device_faults[0])
    return passed()


def _left_behind(what: str) -> Outcome:
    return failed(
        f"A tensor stays on the CPU when the model moves to another device: {what}.",
        "Register it with register_buffer, or make it with device=x.device.",
    )


def first_output(exam: Exam, part: Part, answer: Answer) -> Tensor:
    """Return the first output as a plain tensor; raises Stopped with the reason when it is none."""
    output = answer.outputs[0] if answer.outputs else None
    if isinstance(output, Tensor):
        return output
    raise Stopped(no_tensor(exam, part, output))


def no_tensor(exam: Exam, part: Part, output: str | None) -> Outcome:
    """Say what came back instead of a tensor."""
    if output is None:
        if exam.student.facts.get(part.class_name, {}).get("stub", {}).get("forward"):
            return Outcome(
                Verdict.NOT_ATTEMPTED,
                f"{part.class_name}.forward is not written yet (it returns None).",
                "The layers are there; now write forward.",
            )
        return failed(f"{part.class_name}.forward returns None.", "Is the return statement missing?")
    if output.startswith("tensor subclass"):
        exam.student.tampering.append(
            f"{part.class_name}.forward returns a {output.removeprefix('tensor ')}, which is no plain tensor."
        )
        return Outcome(Verdict.FORBIDDEN, f"{part.class_name}.forward returns a {output}, not a plain tensor.")
    return failed(
        f"{part.class_name}.forward returns {output.removeprefix('other ')}, not a tensor.", "Return the tensor itself."
    )


def _wrong_output(exam: Exam, part: Part, model: Model, sizes: Sizes, purpose: str) -> Outcome | None:
    inputs = exam.inputs(part, sizes, purpose)
    answer = exam.student.call(part, model, inputs)
    if answer.sequence:
        return failed(f"{part.class_name}.forward returns a tuple, not a tensor.", "Return y alone.")
    output = first_output(exam, part, answer)
    wanted = tuple(inputs["x"].shape)
    if tuple(output.shape) != wanted:
        return failed(
            f"forward turns (B, T, C) = {shape_text(wanted)} into {shape_text(output.shape)}; it should keep the shape.",
            "Follow the shapes line by line; squeeze() also removes axes of size 1.",
        )
    return None  # NaN of the right shape is told by the checks of values


def _tensor(value: Tensor | None) -> Tensor:
    assert value is not None
    return value


def _inside_used(part: Part, name: str, sizes: Sizes) -> bool:
    prefixes = tuple(path.split("{i}")[0] for path in part.uses)
    return name.startswith(prefixes) if prefixes else False


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


def _shared(own: dict[str, Parameter]) -> tuple[str, str] | None:
    """Return two names of one parameter, but for the tied head."""
    first: dict[int, str] = {}
    for name, parameter in own.items():
        other = first.setdefault(parameter.group, name)
        if other != name and {other, name} != {"transformer.wte.weight", "lm_head.weight"}:
            return other, name
    return None


def _dead(own: dict[str, Parameter]) -> str:
    """Return a sentence when the model starts with values from which nothing can be learned."""
    broken = [p.name for p in own.values() if not p.finite]
    if broken:
        return f"{broken[0]} starts with NaN or infinity in it."
    matrices = [p for p in own.values() if len(p.shape) == 2]
    dead = [p.name for p in matrices if p.std == 0.0]
    if matrices and len(dead) == len(matrices):
        return f"All weight matrices start constant ({dead[0]} has std 0): nothing can be learned from there."
    return ""
