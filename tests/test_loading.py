"""Loading in the child: each file once, what is missing stands in for itself, and a stub is known by its text."""

from __future__ import annotations

import pytest
from answers import single_file, solutions
from conftest import OpenChild
from workbench_child import DEFAULTS

from autograder.probe.loading import fallback_config


def test_every_class_of_the_solutions_is_found_in_its_file(open_child: OpenChild) -> None:
    with open_child(solutions()) as child:
        facts = child.load()
    assert all(fact["found"] and fact["is_class"] and not fact["empty"] and not fact["lies"] for fact in facts.values())
    assert {name for name, fact in facts.items() if fact["is_module"]} == set(facts) - {"GPTConfig"}
    assert facts["GPTConfig"]["is_dataclass"] and facts["GPT"]["file"] == "gpt.py"
    assert not any(any(facts[name]["stub"].values()) for name in set(facts) - {"GPTConfig"})


def test_one_file_is_run_once_for_all_its_classes(open_child: OpenChild) -> None:
    once = "import builtins\nassert not hasattr(builtins, 'seen')\nbuiltins.seen = 1\n"
    with open_child({"model.py": once + single_file()}) as child:
        assert all(fact["found"] for fact in child.load().values())


def test_a_file_that_does_not_load_is_replaced_for_those_that_import_it(open_child: OpenChild) -> None:
    files = {**solutions(), "mlp.py": "x = 1\nraise KeyError('lost')\n", "config.py": "import nowhere\n"}
    with open_child(files) as child:
        facts = child.load()
        built = child.build("Block")
    fault = facts["MLP"]["error"]
    assert (fault["type"], fault["file"], fault["line"], fault["stage"]) == ("KeyError", "mlp.py", 2, "import")
    assert fault["source"] == "raise KeyError('lost')" and "nowhere" in facts["GPTConfig"]["error"]["message"]
    assert facts["Block"]["found"] and "mlp.standin_mlp" in {row["name"] for row in built["parameters"]}
    assert built["config_origin"] == "student"  # the fallback has the contract's fields


def test_a_syntax_error_is_told_with_its_line_and_nothing_of_where_the_file_lies(open_child: OpenChild) -> None:
    with open_child({**solutions(), "mlp.py": "x = 1\nclass MLP(:\n"}) as child:
        fault = child.load()["MLP"]["error"]
        assert str(child.tree) not in str(fault)
    assert (fault["type"], fault["file"], fault["line"], fault["source"]) == ("SyntaxError", "mlp.py", 2, "class MLP(:")
    with open_child({**solutions(), "mlp.py": "import json\njson.loads('{')\nraise SyntaxError('mine')"}) as child:
        assert child.load()["MLP"]["error"]["line"] == 2
    with open_child({**solutions(), "mlp.py": "raise SyntaxError('mine')"}) as child:
        assert child.load()["MLP"]["error"]["message"] == "mine"


def test_a_class_that_is_missing_is_replaced_for_those_that_import_it(open_child: OpenChild) -> None:
    with open_child({**solutions(), "mlp.py": "width = 4\n", "config.py": "pass\n"}) as child:
        facts = child.load()
        built = child.build("Block")
    assert facts["MLP"] == {"found": False, "file": "mlp.py"} and facts["GPTConfig"]["found"] is False
    assert "mlp.standin_mlp" in {row["name"] for row in built["parameters"]}


@pytest.mark.parametrize(
    "line", ["raise SystemExit", "raise KeyboardInterrupt", "class E(BaseException): pass\nraise E"]
)
def test_whatever_an_import_raises_is_caught(line: str, open_child: OpenChild) -> None:
    with open_child({**solutions(), "mlp.py": line}) as child:
        assert child.load()["MLP"]["error"]["stage"] == "import"


def test_a_notebook_keeps_its_definitions_and_leaves_out_what_fails_or_runs(open_child: OpenChild) -> None:
    cells = [
        "import math",
        "text = open('input.txt').read()",
        "size: int = missing_name",
        "try:\n    1 / 0\nexcept KeyError:\n    pass",
        "1 / 0",
        "for i in range(3): 1 / 0",
        "WIDTH = 4",
        "def widen(n): return WIDTH * n",
        "async def later(): pass",
        single_file(),
        "GPT(GPTConfig(n_layer='many'))",
    ]
    with open_child({"model.py": "\n".join(cells)}) as child:
        assert all(fact["found"] for fact in child.load(lenient=("model.py",)).values())
    with open_child({"model.py": "import nowhere\n"}) as child:
        assert all("error" in fact for fact in child.load(lenient=("model.py",)).values())


STUBS = {
    "pass": True,
    "...": True,
    '"""What to do."""': True,
    "raise NotImplementedError": True,
    "raise NotImplementedError('write me')": True,
    "return None": True,
    "return": True,
    "return ...": True,
    "super().__init__()\n        raise NotImplementedError": True,
    "y = 1\n        raise NotImplementedError\n        return y": True,
    "y = 1\n        return": False,
    "return x": False,
    "print(x)": False,
    "raise ValueError": False,
    "raise": False,
    "if x is None:\n            raise NotImplementedError\n        return x": False,
}


@pytest.mark.parametrize(("body", "unwritten"), STUBS.items(), ids=list(STUBS))
def test_a_stub_is_known_by_its_text(body: str, unwritten: bool, open_child: OpenChild) -> None:
    text = f"from torch import nn\n\nclass MLP(nn.Module):\n    def forward(self, x):\n        {body}\n"
    with open_child({"model.py": text}) as child:
        facts = child.load({"MLP": "model.py"})
    assert facts["MLP"]["stub"] == {"__init__": False, "forward": unwritten}


#: What a class may look like: text -> what is said of its two methods, and whether it is empty.
SHAPES = {
    "a missing forward": ("class MLP(nn.Module):\n    def __init__(self): self.n = 1", (False, True), False),
    "nothing at all": ("class MLP(nn.Module): pass", (False, True), True),
    "a plain class": ("class MLP:\n    '''Later.'''", (False, True), True),
    "only an annotation": ("class MLP:\n    width: int", (False, True), False),
    "a base of one's own": (
        "class Base(nn.Module):\n    def forward(self, x): return x\nclass MLP(Base): pass",
        (False, False),
        False,
    ),
    "a method that is no function": (
        "class MLP(nn.Module):\n    forward = staticmethod(lambda x: x)\n    def __init__(self): ...",
        (True, False),
        False,
    ),
    "a decorated method": (
        "import torch\nclass MLP(nn.Module):\n    @staticmethod\n    def a(): pass\n"
        "    def forward(\n        self,\n        x):\n        ...",
        (False, True),
        False,
    ),
    "a method from elsewhere": (
        "exec('def later(self, x): pass')\nclass MLP(nn.Module):\n    forward = later\n    n = 1",
        (False, False),
        False,
    ),
    "a lambda": ("class MLP(nn.Module):\n    forward = lambda self, x: None\n    n = 1", (False, False), False),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_a_class_lacks_is_seen(name: str, open_child: OpenChild) -> None:
    text, (init, forward), empty = SHAPES[name]
    with open_child({"model.py": "from torch import nn\n" + text}) as child:
        facts = child.load({"MLP": "model.py"})["MLP"]
    assert facts["stub"] == {"__init__": init, "forward": forward} and facts["empty"] is empty


def test_a_function_in_place_of_a_class_is_no_class(open_child: OpenChild) -> None:
    with open_child({"model.py": "def MLP(config): return config\n"}) as child:
        facts = child.load({"MLP": "model.py"})["MLP"]
    assert facts["found"] and not facts["is_class"] and not facts["is_module"] and facts["stub"] == {}


def test_stand_ins_reach_the_helper_modules_of_a_submission(open_child: OpenChild) -> None:
    files = {**solutions(), "block.py": "from parts.inner import Block\n"}
    files["parts/inner.py"] = solutions()["block.py"]
    with open_child(files) as child:
        child.load()
        assert child.build("Block", stand_ins={"MLP": "mlp", "CausalSelfAttention": "attention"})["stand_ins"] == 2


def test_the_fallback_config_has_the_contracts_fields_and_defaults() -> None:
    config = fallback_config("GPTConfig", DEFAULTS)
    assert config.__name__ == "GPTConfig" and vars(config()) == DEFAULTS and vars(config(n_head=2))["n_head"] == 2
