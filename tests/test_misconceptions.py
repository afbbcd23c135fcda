"""The bank of known mistakes agrees with the reference where nothing is wrong, and tells its mistakes apart."""

import itertools
import re

import pytest
import torch

from autograder.oracle.cases import Draws, own_and_standin_shapes
from autograder.oracle.misconceptions import BANK, matches, of_part, recognise, recognise_gradients
from autograder.oracle.reference import Reference, find_solutions
from autograder.oracle.variants import gradients, run
from autograder.track import load_track

TRACK, FOUNDATIONS = load_track("gpt"), load_track("foundations")
DRAWS = Draws(31)
PARTS = ("attention", "mlp", "block", "gpt")
#: Sections of the bank that the foundations track has of its own; it shares block and gpt.
HEADWISE = ("head", "heads", "relu")
IN_OUTPUTS = [entry for entry in BANK if entry.shows == "outputs"]
IN_GRADIENTS = [entry for entry in BANK if entry.shows == "gradients"]
#: Mistakes that no output can tell apart: the same formula reached in two ways.
TWINS = (
    {"The norm is RMSNorm: it does not subtract the mean."},
    {"The logits are capped by a tanh."},
    {"The MLP comes before attention."},
)


def case(part_name: str):
    """Return a part, a configuration, weights under the bank's names and inputs, for each section of the bank."""
    track = TRACK if part_name in PARTS else FOUNDATIONS
    part = next(part for part in track.parts if part.mistakes == part_name)
    sizes = DRAWS.sizes(f"bank {part_name}", n_head=3, head_dim=10, length=7, n_layer=4)
    weights = DRAWS.weights(f"bank {part_name}", own_and_standin_shapes(part, track, sizes.config))
    weights = part.in_bank_names(weights)
    if part_name == "gpt":
        weights["transformer.wte.weight"] = weights["lm_head.weight"]
        inputs = {"idx": DRAWS.tokens("bank", (sizes.batch, sizes.length), sizes.config["vocab_size"])}
    else:
        inputs = {"x": DRAWS.normal("bank x", (sizes.batch, sizes.length, sizes.config["n_embd"]))}
    return part, sizes.config, weights, inputs


def own_names(part, weights):
    """Return weights under the names of the track, from those of the bank."""
    found = {}
    for name, value in weights.items():
        own, theirs = next((pair for pair in part.alike.items() if name.startswith(f"{pair[1]}.")), ("", ""))
        found[own + name.removeprefix(theirs) if own else name] = value
    return found


@pytest.mark.parametrize("part_name", [*PARTS, *HEADWISE])
def test_with_no_mistake_the_formulas_equal_the_reference(part_name):
    part, config, weights, inputs = case(part_name)
    track, own = (TRACK, weights) if part_name in PARTS else (FOUNDATIONS, own_names(part, weights))
    expected = Reference(track).evaluate(part, config, own, inputs).outputs[0]
    assert torch.allclose(run(part_name, inputs, weights, config, {}), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("entry", IN_OUTPUTS, ids=lambda entry: f"{entry.part} {dict(entry.switches)}")
def test_each_mistake_is_recognised_as_itself(entry):
    _, config, weights, inputs = case(entry.part)
    output = run(entry.part, inputs, weights, config, dict(entry.switches)).float()
    found = recognise(entry.part, inputs, weights, config, output)
    sentences = {mistake.sentence for mistake in found}
    assert len(found) == 1
    assert sentences == {entry.sentence} or any({entry.sentence} | sentences <= twins for twins in TWINS)


@pytest.mark.parametrize("part_name", PARTS)
def test_right_answers_are_never_called_a_mistake(part_name):
    part, config, weights, inputs = case(part_name)
    output = Reference(TRACK).evaluate(part, config, weights, inputs).outputs[0].float()
    assert recognise(part_name, inputs, weights, config, output) == ()


def test_two_mistakes_at_once_are_named():
    _, config, weights, inputs = case("attention")
    output = run("attention", inputs, weights, config, {"scale": "none", "order": "kqv"}).float()
    sentences = [mistake.sentence for mistake in recognise("attention", inputs, weights, config, output)]
    assert sentences == [
        "Your output equals attention whose scores are not divided by sqrt(head_dim).",
        "c_attn's output is read as k, q, v.",
    ]


def test_a_pair_of_mistakes_is_not_taken_for_another_pair():
    _, config, weights, inputs = case("mlp")
    mistakes = [entry for entry in of_part("mlp") if not entry.alone]
    for first, second in itertools.islice(itertools.combinations(mistakes, 2), 0, 200, 7):
        if first.keys & second.keys:
            continue
        output = run("mlp", inputs, weights, config, dict(first.switches) | dict(second.switches)).float()
        assert matches("mlp", recognise("mlp", inputs, weights, config, output), inputs, weights, config, output)


def test_an_unknown_mistake_has_no_name():
    _, config, weights, inputs = case("block")
    output = run("block", inputs, weights, config, {}).float().roll(1, dims=0)
    assert recognise("block", inputs, weights, config, output) == ()


def test_mostly_nan_has_no_name():
    _, config, weights, inputs = case("attention")
    output = torch.full((5, 7, 30), torch.nan)
    assert recognise("attention", inputs, weights, config, output) == ()


def asked(part_name: str, learns: bool = False):
    """Return the part, its case with gradients of the output or of the loss, and the right gradients."""
    part, config, weights, inputs = case(part_name)
    track = TRACK if part_name in PARTS else FOUNDATIONS
    return answered(track, part, config, weights, inputs, learns)


def answered(track, part, config, weights, inputs, learns: bool):
    """Return config, weights, inputs, the right gradients under the bank's names, and what they are taken along."""
    own = own_names(part, weights)
    if learns:
        inputs = {**inputs, "targets": inputs["idx"].roll(1, dims=1)}
        right = Reference(track).evaluate(part, config, own, inputs, loss=True)
        return config, weights, inputs, part.in_bank_names(right.gradients), None
    shape = run(part.mistakes, inputs, weights, config, {}).shape
    cotangent = DRAWS.normal("bank cotangent", tuple(shape))
    right = Reference(track).evaluate(part, config, own, inputs, cotangent=cotangent)
    return config, weights, inputs, part.in_bank_names(right.gradients), cotangent


def untied(learns: bool):
    """Return the same for the whole model of the foundations track, whose head is a matrix of its own."""
    part = FOUNDATIONS.part("transformer")
    sizes = DRAWS.sizes("bank untied", n_head=3, head_dim=10, length=7, n_layer=3)
    names = FOUNDATIONS.tables.names
    drawn = DRAWS.weights("bank untied", own_and_standin_shapes(part, FOUNDATIONS, sizes.config), tables=names)
    inputs = {"idx": DRAWS.tokens("bank", (sizes.batch, sizes.length), sizes.config["vocab_size"])}
    return answered(FOUNDATIONS, part, sizes.config, part.in_bank_names(drawn), inputs, learns)


def as_students(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return gradients as they come from a student: float32, those that are nothing but zero left out."""
    return {name: value.float() for name, value in found.items() if bool(value.any())}


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("part_name", [*PARTS, *HEADWISE])
def test_with_no_mistake_the_gradients_equal_the_reference(part_name, learns):
    if learns and part_name != "gpt":
        return  # the other parts have no loss
    config, weights, inputs, right, cotangent = asked(part_name, learns)
    found = gradients(part_name, inputs, weights, config, {}, cotangent)
    assert found.keys() | {"transformer.wte.weight"} == right.keys() | {"transformer.wte.weight"}
    for name, value in found.items():
        assert torch.allclose(value, right[name], rtol=1e-9, atol=1e-9), name
    assert recognise_gradients(part_name, inputs, weights, config, as_students(found), right, cotangent) == ()


@pytest.mark.parametrize("entry", IN_GRADIENTS, ids=lambda entry: f"{entry.part} {dict(entry.switches)}")
def test_each_mistake_of_the_gradients_is_recognised_as_itself_and_leaves_the_output_right(entry):
    config, weights, inputs, right, cotangent = asked(entry.part, "learns" in dict(entry.switches))
    switches = dict(entry.switches)
    mine = as_students(gradients(entry.part, inputs, weights, config, switches, cotangent))
    assert recognise_gradients(entry.part, inputs, weights, config, mine, right, cotangent) == (entry,)
    plain = run(entry.part, inputs, weights, config, {})
    assert torch.allclose(run(entry.part, inputs, weights, config, switches), plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("entry", of_part("gpt", "gradients"), ids=lambda entry: f"{dict(entry.switches)}")
def test_each_mistake_of_the_gradients_is_recognised_where_the_head_is_not_tied(entry):
    config, weights, inputs, right, cotangent = untied("learns" in dict(entry.switches))
    plain = as_students(gradients("gpt", inputs, weights, config, {}, cotangent))
    assert all(torch.allclose(plain[name].double(), right[name], rtol=1e-5, atol=1e-6) for name in plain)
    assert {"transformer.wte.weight", "lm_head.weight"} <= plain.keys()
    assert recognise_gradients("gpt", inputs, weights, config, plain, right, cotangent) == ()
    mine = as_students(gradients("gpt", inputs, weights, config, dict(entry.switches), cotangent))
    assert recognise_gradients("gpt", inputs, weights, config, mine, right, cotangent) == (entry,)


def test_two_mistakes_of_the_gradients_at_once_are_named():
    config, weights, inputs, right, cotangent = asked("gpt")
    mine = as_students(gradients("gpt", inputs, weights, config, {"cut positions": True, "padded": True}, cotangent))
    found = recognise_gradients("gpt", inputs, weights, config, mine, right, cotangent)
    assert [entry.switches[0][0] for entry in found] == ["cut positions", "padded"]


def test_unknown_gradients_and_those_of_another_shape_have_no_name():
    config, weights, inputs, right, cotangent = asked("mlp")
    for mine in (
        {name: value * 2 for name, value in right.items()},
        {**right, "c_fc.bias": right["c_fc.bias"][:1]},
        {**right, "c_fc.bias": right["c_fc.bias"] * torch.nan},
    ):
        assert recognise_gradients("mlp", inputs, weights, config, mine, right, cotangent) == ()


def test_there_are_at_least_sixty_and_each_says_something_of_its_own():
    counts = {part: (len(of_part(part)), len(of_part(part, "gradients"))) for part in PARTS}
    assert all(len(of_part(section, "gradients")) >= 4 for section in HEADWISE)
    print(f"{len(BANK)} single mistakes; (in outputs, in gradients alone): {counts}")
    assert len(BANK) >= 60 and all(outputs >= 20 and inside >= 6 for outputs, inside in counts.values())
    assert all(entry.sentence.endswith(".") and entry.look_at.endswith(".") for entry in BANK)


def test_the_text_holds_no_line_of_the_solution():
    lines = {
        line.split("#")[0].strip() for path in find_solutions().glob("*.py") for line in path.read_text().splitlines()
    }
    code = {line for line in lines if re.search(r"[=(].*[)\w]", line) and len(line) > 15}
    text = " ".join(entry.sentence + " " + entry.look_at for entry in BANK)
    assert code
    assert not [line for line in code if line in text]
