"""The bank of known mistakes agrees with the reference where nothing is wrong, and tells its mistakes apart."""

import itertools
import re

import pytest
import torch

from autograder.oracle.cases import Draws, own_and_standin_shapes
from autograder.oracle.misconceptions import BANK, matches, of_part, recognise
from autograder.oracle.reference import Reference, find_solutions
from autograder.oracle.variants import run
from autograder.track import load_track

TRACK, FOUNDATIONS = load_track("gpt"), load_track("foundations")
DRAWS = Draws(31)
PARTS = ("attention", "mlp", "block", "gpt")
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
    sizes = DRAWS.sizes(f"bank {part_name}", n_head=3, head_dim=10, length=7, n_layer=3 if part_name == "gpt" else 2)
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
    layers = {theirs: own for own, theirs in part.alike.items()}
    parts = {name: name.rpartition(".") for name in weights}
    return {layers.get(layer, layer) + dot + leaf: weights[name] for name, (layer, dot, leaf) in parts.items()}


@pytest.mark.parametrize("part_name", [*PARTS, "head", "heads", "relu"])
def test_with_no_mistake_the_formulas_equal_the_reference(part_name):
    part, config, weights, inputs = case(part_name)
    track, own = (TRACK, weights) if part_name in PARTS else (FOUNDATIONS, own_names(part, weights))
    expected = Reference(track).evaluate(part, config, own, inputs).outputs[0]
    assert torch.allclose(run(part_name, inputs, weights, config, {}), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("entry", BANK, ids=lambda entry: f"{entry.part} {dict(entry.switches)}")
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
    mistakes = of_part("mlp")
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


def test_there_are_at_least_sixty_and_each_says_something_of_its_own():
    assert len(BANK) >= 60
    assert all(entry.sentence.endswith(".") and entry.look_at.endswith(".") for entry in BANK)


def test_the_text_holds_no_line_of_the_solution():
    lines = {
        line.split("#")[0].strip() for path in find_solutions().glob("*.py") for line in path.read_text().splitlines()
    }
    code = {line for line in lines if re.search(r"[=(].*[)\w]", line) and len(line) > 15}
    text = " ".join(entry.sentence + " " + entry.look_at for entry in BANK)
    assert code
    assert not [line for line in code if line in text]
