"""The watch in the child process: says what was tried, undoes it, and never speaks of honest code."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autograder.probe.watch_callers import Callers
from autograder.probe.watch_log import MAX_LENGTH, MAX_SENTENCES, Log, listing
from autograder.probe.watch_paths import Paths, resolve

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="each scenario runs in a forked child")

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Linux's calls")

MODEL = """
from dataclasses import dataclass
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

@dataclass
class GPTConfig:
    n_embd: int = 32
    n_head: int = 2

class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))
"""

#: name -> (what is done, words of the tampering sentence, an expression that is true when it is undone)
TAMPERING: dict[str, tuple[str, str, str]] = {
    "torch function": (
        "import torch\ntorch.allclose = lambda *a, **k: True",
        "replaces functions of torch: allclose",
        "not torch.allclose(torch.zeros(1), torch.ones(1))",
    ),
    "inherited tensor method": (
        "import torch\ntorch.Tensor.abs = lambda self: torch.zeros_like(self)\ntorch.Tensor.__sub__ = lambda a, b: a",
        "replaces functions of torch.Tensor: __sub__ and abs",
        "torch.tensor(-2.0).abs().item() == 2.0 and 'abs' not in vars(torch.Tensor)",
    ),
    "deleted function": (
        "import torch\ndel torch.equal",
        "replaces functions of torch: equal",
        "torch.equal is not None",
    ),
    "module call": (
        "import torch\ntorch.nn.Module.__call__ = lambda self, *a: a[0]",
        "replaces functions of torch.nn.Module: __call__",
        "torch.nn.Linear(2, 3)(torch.ones(2)).shape == (3,)",
    ),
    "functional": (
        "import torch.nn.functional as F\nF.mse_loss = lambda *a: 0",
        "replaces functions of torch.nn.functional: mse_loss",
        "torch.nn.functional.mse_loss(torch.ones(1), torch.zeros(1)).item() == 1.0",
    ),
    "many assertions": (
        "import unittest\nfor n in dir(unittest.TestCase):\n"
        "    if n.startswith('assert'): setattr(unittest.TestCase, n, lambda *a: None)",
        "replaces functions of unittest.TestCase:",
        "'assertEqual' in vars(sys.modules['unittest'].TestCase)",
    ),
    "numpy testing": (
        "import numpy.testing\nnumpy.testing.assert_allclose = print",
        "replaces functions of numpy.testing: assert_allclose",
        "numpy.testing.assert_allclose is not print",
    ),
    "built-in functions that the watch itself needs": (
        "import builtins\nfor n in ('all', 'min', 'sorted'): setattr(builtins, n, lambda *a, **k: None)",
        "replaces functions of builtins: ",
        "sorted([2, 1]) == [1, 2]",
    ),
    "os.write": ("import os\nos.write = lambda *a: 0", "replaces functions of os: write", "os.write(1, b'x') == 1"),
    "json": ("import json\njson.dumps = str", "replaces functions of json: dumps", "True"),
    "the probe": (
        "import autograder.probe.ops as ops\nops.Workbench.handle = None\nops.describe = None",
        "replaces functions of autograder.probe.ops: describe",
        "sys.modules['autograder.probe.ops'].describe is not None",
    ),
    "whole module": (
        "import sys, types\nsys.modules['numpy.testing'] = types.ModuleType('numpy.testing')",
        "replaces whole modules: numpy.testing",
        "hasattr(sys.modules['numpy.testing'], 'assert_allclose')",
    ),
    "planted module": (
        "import sys, types\nsys.modules['autograder.oracle'] = types.ModuleType('x')",
        "plants modules under the grader's names: autograder.oracle",
        "True",
    ),
    "code of a library function": (
        "import torch.nn.functional as F\ntry:\n    F.cross_entropy.__code__ = (lambda *a, **k: 0).__code__\n"
        "except PermissionError: pass",
        "changes the inside of cross_entropy (__code__)",
        "torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.zeros(1, dtype=torch.long)).item() > 1",
    ),
    "bases of a library class": (
        "import torch\ntry:\n    torch.nn.Linear.__bases__ = (torch.nn.Identity,)\nexcept PermissionError: pass",
        "changes the inside of Linear (__bases__)",
        "torch.nn.Linear.__bases__ == (torch.nn.Module,)",
    ),
    "settrace": (
        "import sys\nsys.settrace(lambda *a: None)",
        "traces the grader while it runs (sys.settrace)",
        "untraced",
    ),
    "setprofile": (
        "import sys\nsys.setprofile(lambda *a: None)",
        "traces the grader while it runs (sys.setprofile)",
        "untraced",
    ),
    "tracer set by a thread": (
        "import threading\ndef tracer(*a): return None\nthreading.settrace(tracer)\nthreading.setprofile(tracer)",
        "traces the grader while it runs (threading.setprofile)",
        "untraced",
    ),
    "f_trace of the grader's frames": (
        "import inspect\nclass T:\n    def trace(self, *a): return None\nf = inspect.currentframe()\n"
        "while f is not None:\n    f.f_trace = T().trace\n    f = f.f_back",
        "traces the grader while it runs (f_trace)",
        "sys._getframe(1).f_trace is None",
    ),
    "meta path finder": (
        "import sys\nclass Finder:\n    @staticmethod\n    def find_spec(*a): return None\n"
        "sys.meta_path.insert(0, Finder())",
        "intercepts imports (sys.meta_path)",
        "all(type(f).__name__ != 'Finder' for f in sys.meta_path)",
    ),
    "path hook by partial": (
        "import functools, sys\ndef hook(x, path): raise ImportError\n"
        "sys.path_hooks = [functools.partial(hook, 1), *sys.path_hooks]",
        "intercepts imports (sys.path_hooks)",
        "all('partial' not in type(h).__name__ for h in sys.path_hooks)",
    ),
    "hook table deleted": (
        "import torch.nn.modules.module as m\ndel m._global_forward_hooks",
        "(global forward_hooks)",
        "torch.nn.Linear(2, 2)(torch.ones(2)).shape == (2,)",
    ),
    "finders removed": (
        "import sys\nsys.meta_path.clear()",
        "intercepts imports (sys.meta_path)",
        "len(sys.meta_path) > 2",
    ),
    "builtins.__import__": (
        "import builtins\nold = builtins.__import__\nbuiltins.__import__ = lambda *a, **k: old(*a, **k)",
        "replaces functions of builtins: __import__",
        "type(__import__).__name__ == 'builtin_function_or_method'",
    ),
    "global hooks": (
        "from torch.nn.modules.module import *\nimport torch.nn.modules.module as m\n"
        "m.register_module_forward_hook(lambda *a: None)\nm.register_module_full_backward_hook(lambda *a: None)",
        "hooks every module there is, the grader's included (global backward_hooks and forward_hooks)",
        "not torch.nn.modules.module._global_forward_hooks and not torch.nn.modules.module._global_backward_hooks",
    ),
    "gc": ("import gc\ngc.get_objects()", "objects that are not its own (gc.get_objects)", "True"),
    "gc from text": (
        "exec('import gc; gc.get_referrers(1)')",
        "objects that are not its own (gc.get_referrers)",
        "True",
    ),
    "ctypes": (
        "import ctypes\nctypes.string_at(b'abc', 2)\nctypes.pythonapi.Py_IncRef",
        "reaches into the interpreter's memory with ctypes (ctypes.dlsym)",
        "True",
    ),
    "audit hook": (
        "import sys\nsys.addaudithook(lambda *a: open('hooked', 'w'))",
        "installs an audit hook",
        "not (scratch / 'hooked').exists()",
    ),
    "kill": (
        "import os\ntry:\n    os.kill(os.getppid(), 0)\nexcept PermissionError: blocked = True",
        "sends signals to other processes (os.kill)",
        "sys.modules['model'].blocked",
    ),
    "exec": (
        "import os\ntry:\n    os.execv('/bin/true', ['true'])\nexcept PermissionError: blocked = True",
        "starts another program (os.exec)",
        "sys.modules['model'].blocked",
    ),
    "system": (
        "import os\ntry:\n    os.system('touch here')\nexcept PermissionError: pass",
        "starts another program (os.system)",
        "not (scratch / 'here').exists()",
    ),
    "subprocess": (
        "import subprocess\ntry:\n    subprocess.run(['touch', 'here'])\nexcept PermissionError: pass",
        "starts another program (subprocess.Popen)",
        "not (scratch / 'here').exists()",
    ),
    "fork loop": (
        "import os\nmade = 0\ntry:\n    for _ in range(50):\n        if os.fork() == 0: os._exit(0)\n"
        "        made += 1\n"
        "except OSError: pass",
        "starts many processes (more than 8)",
        "sys.modules['model'].made == 8",
    ),
    "connection": (
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', 9))\nexcept PermissionError: blocked = True",
        "opens a network connection (socket.connect)",
        "sys.modules['model'].blocked",
    ),
    "listening": (
        "import socket\ntry:\n    socket.socket().bind(('127.0.0.1', 0))\nexcept PermissionError: blocked = True",
        "opens a network connection (socket.bind)",
        "sys.modules['model'].blocked",
    ),
    "grader's files": (
        "import autograder, pathlib\ntry:\n"
        "    pathlib.Path(autograder.__file__).with_name('oracle').joinpath('__init__.py').read_text()\n"
        "except PermissionError: blocked = True",
        "tries to read the grader's files",
        "sys.modules['model'].blocked",
    ),
    "grader's folder by a link": (
        "import autograder, os\nos.chdir(os.path.dirname(autograder.__file__))\ntry:\n    os.listdir(b'checks')\n"
        "except PermissionError: blocked = True",
        "tries to read the grader's files",
        "sys.modules['model'].blocked",
    ),
    "the answers beside the package": (
        "import autograder, os\ntry:\n"
        "    open(os.path.join(os.path.dirname(autograder.__file__), '..', 'solutions', 'gpt.py'))\n"
        "except PermissionError: blocked = True",
        "tries to read the grader's files",
        "sys.modules['model'].blocked",
    ),
    "importing the grader": (
        "try:\n    import autograder.oracle.reference\nexcept PermissionError: blocked = True",
        "tries to read the grader's files",
        "sys.modules['model'].blocked",
    ),
    "writing into the grader": (
        "import autograder, os\ntry:\n    open(os.path.join(os.path.dirname(autograder.__file__), 'probe', 'x'), 'w')\n"
        "except PermissionError: blocked = True",
        "tries to read the grader's files",
        "sys.modules['model'].blocked",
    ),
    "writing into installed packages": (
        "import torch, os\ntry:\n    os.mkdir(os.path.join(os.path.dirname(torch.__file__), 'planted'))\n"
        "except PermissionError: blocked = True",
        "tries to change installed packages",
        "sys.modules['model'].blocked",
    ),
    "litter": (
        "made = 0\ntry:\n    for i in range(500):\n        open(f'{i}', 'w').close()\n        made += 1\n"
        "except PermissionError: pass",
        "litters the working directory (more than 100 files)",
        "sys.modules['model'].made == 100 and len(os.listdir(scratch)) == 100",
    ),
    "lower limits": (
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))",
        "lowers the limits of the process",
        "True",
    ),
    "limits that are no tuple": (
        "import resource\nclass L(list): pass\nresource.setrlimit(resource.RLIMIT_NOFILE, L([50, 50]))",
        "lowers the limits of the process",
        "True",
    ),
}

#: name -> (what is done, words of the sentence, an expression that is true when it is undone)
SIDE_EFFECTS: dict[str, tuple[str, str, str]] = {
    "dtype": (
        "import torch\ntorch.set_default_dtype(torch.float64)",
        "the default dtype changed to torch.float64",
        "torch.zeros(1).dtype == torch.float32",
    ),
    "device": (
        "import torch\ntorch.set_default_device('meta')",
        "the default device changed to meta",
        "torch.zeros(1).device.type == 'cpu'",
    ),
    "device context": (
        "import torch\ntorch.device('meta').__enter__()",
        "the default device changed to meta",
        "torch.zeros(1).device.type == 'cpu'",
    ),
    "no gradients": (
        "import torch\ntorch.set_grad_enabled(False)",
        "gradient recording changed to off",
        "torch.is_grad_enabled()",
    ),
    "inference mode": (
        "import torch\nkeep = torch.inference_mode()\nkeep.__enter__()",
        "inference mode changed to on",
        "not torch.ones(1).is_inference() and torch.is_grad_enabled()",
    ),
    "determinism": (
        "import torch\ntorch.use_deterministic_algorithms(True, warn_only=True)",
        "deterministic algorithms changed to on",
        "not torch.are_deterministic_algorithms_enabled()",
    ),
    "matmul precision": (
        "import torch\ntorch.set_float32_matmul_precision('medium')",
        "float32 matmul precision changed to medium",
        "torch.get_float32_matmul_precision() == 'highest'",
    ),
    "anomaly": (
        "import torch\ntorch.autograd.set_detect_anomaly(True)",
        "anomaly detection changed to on",
        "not torch.is_anomaly_enabled()",
    ),
    "autocast": (
        "import torch\nkeep = torch.autocast('cpu')\nkeep.__enter__()",
        "autocast changed to on",
        "not torch.is_autocast_enabled('cpu')",
    ),
    "tensor type": (
        "import torch\ntorch.set_default_tensor_type(torch.DoubleTensor)",
        "the default dtype changed to torch.float64",
        "torch.zeros(1).dtype == torch.float32",
    ),
    "function mode": (
        "from torch.overrides import TorchFunctionMode\nclass M(TorchFunctionMode):\n"
        "    def __torch_function__(self, f, t, a=(), k=None): return 7\nM().__enter__()",
        "a torch mode active that sees every operation",
        "torch.ones(1).item() == 1",
    ),
    "dispatch mode": (
        "from torch.utils._python_dispatch import TorchDispatchMode\nclass M(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, f, t, a=(), k=None): return f(*a, **(k or {}))\nM().__enter__()",
        "a torch mode active that sees every operation",
        "torch._C._len_torch_dispatch_stack() == 0",
    ),
    "numpy errors": (
        "import numpy as np\nnp.seterr(all='raise')",
        "numpy raising errors where it only warns",
        "numpy.geterr()['divide'] == 'warn'",
    ),
    "recursion limit": (
        "import sys\nsys.setrecursionlimit(200)",
        "the recursion limit lowered to 200",
        "sys.getrecursionlimit() >= 1000",
    ),
    "warnings as errors": (
        "import warnings\nwarnings.filterwarnings('ignore', 'mine')\nwarnings.filterwarnings('error')",
        "warnings turned into errors",
        "[f[0] for f in __import__('warnings').filters].count('error') == 0"
        " and __import__('warnings').filters[0][0] == 'ignore'",
    ),
}

#: name -> (what is done, words of the notice, an expression that is true afterwards)
NOTICES: dict[str, tuple[str, str, str]] = {
    "chdir": ("import os\nos.chdir('/')", "changes the working directory", "os.getcwd() == str(scratch.resolve())"),
    "lost directory": (
        "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')",
        "changes the working directory",
        "os.getcwd() == str(scratch.resolve())",
    ),
    "umask": ("import os\nos.umask(0o123)", "changes the umask", "os.umask(0o022) != 0o123"),
    "threads": (
        "import torch\ntorch.set_num_threads(2)",
        "changes the number of threads",
        "torch.get_num_threads() == 1",
    ),
    "environment": (
        "import os\nos.environ['OMP_NUM_THREADS'] = '64'\nos.environ['PATH'] = ''\nos.environ['MY_DEVICE'] = 'cpu'",
        "changes environment variables (MY_DEVICE, OMP_NUM_THREADS and PATH)",
        "os.environ.get('OMP_NUM_THREADS') != '64' and os.environ['PATH'] and os.environ['MY_DEVICE'] == 'cpu'",
    ),
    "environment with escape codes": (
        "import os\nos.environ['A\\x1b[31m\\u202e'] = 'x' * 10_000",
        "changes environment variables (A?[31m?)",
        "True",
    ),
    "signals": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGALRM, lambda *a: None)",
        "ignores the request to stop (SIGTERM and SIGALRM)",
        "__import__('signal').getsignal(15) == __import__('signal').SIG_DFL",
    ),
    "locale": (
        "import locale\nlocale.setlocale(locale.LC_ALL, 'C')\nlocale.setlocale(locale.LC_ALL, 'C.UTF-8')",
        "changes the locale",
        "True",
    ),
    "files": ("open('log.txt', 'a').write('x')\nopen('log.txt', 'a').write('x')", "writes files when", "True"),
    "a process": ("import os\nif os.fork() == 0: os._exit(0)\nos.wait()", "starts background processes", "True"),
    "own call stack": ("import sys\nprint(sys._getframe().f_lineno)", "looks at the interpreter's call stack", "True"),
    "download by a library": (
        "import urllib.request\ntry:\n    urllib.request.urlopen('http://localhost:9/input.txt')\n"
        "except OSError: missing = True",
        "there is no network while grading",
        "sys.modules['model'].missing",
    ),
    "connection by a library": (
        "import asyncio\nasync def go():\n    await asyncio.open_connection('127.0.0.1', 9)\n"
        "try:\n    asyncio.run(go())\nexcept OSError: missing = True",
        "there is no network while grading",
        "sys.modules['model'].missing",
    ),
    "program started by a library": (
        "import asyncio\nasync def go():\n    await asyncio.create_subprocess_exec('true')\n"
        "try:\n    asyncio.run(go())\nexcept OSError: missing = True",
        "A library that the code uses tried to start another program",
        "sys.modules['model'].missing",
    ),
    "repr of tensors": (
        "import torch\ntorch.Tensor.__repr__ = lambda self: 'tensor'\ntorch.compile = lambda model: model",
        "replaces functions of torch.Tensor: __repr__",
        "True",
    ),
    "removed numpy names": ("import numpy as np\nnp.bool = bool\nnp.float = float", "functions of numpy: bool", "True"),
    "a debugger left behind": (
        "import pdb, sys\nclass D(pdb.Pdb):\n    def interaction(self, *a): pass\nD(nosigint=True).set_trace()",
        "leaves a debugger or a profiler running",
        "untraced",
    ),
    "something that cannot be inspected": (
        "import warnings\nwarnings.filters = None",
        "could not look at everything that the code changed (TypeError)",
        "True",
    ),
    "higher limits": (
        "import resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_STACK)\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (hard, hard))",
        "changes the limits of its process",
        "True",
    ),
    "the kit's notebook checks": (
        "import autograder, os\nkit = os.path.join(os.path.dirname(autograder.__file__), 'jupyter.py')\n"
        "try:\n    exec(compile('import autograder.oracle.reference', kit, 'exec'))\n"
        "except PermissionError: missing = True",
        "imports the workshop's own package",
        "sys.modules['model'].missing",
    ),
}

#: Text that honest people write; not a word may be said about it.
HONEST: dict[str, str] = {
    "a model": MODEL
    + """
def call():
    model = CausalSelfAttention(GPTConfig())
    optimizer = torch.optim.AdamW(model.parameters())
    for mode in (True, False):
        model.train(mode)
        optimizer.zero_grad()
        model(torch.randn(2, 5, 32)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    "seeds and prints": "import random, torch, numpy as np\n"
    "torch.manual_seed(0); random.seed(0); np.random.seed(0)\nprint('hi')",
    "star imports": "from torch import *\nfrom torch.nn import *\n"
    "from torch.nn.functional import *\nfrom math import *\nzeros(1)",
    "lazy corners of torch": """
import torch, torch.nn as nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset
layer = nn.Linear(4, 4)
x = torch.randn(2, 4, requires_grad=True)
checkpoint(layer, x, use_reentrant=False).sum().backward()
torch.einsum('bi,bj->ij', x, x)
torch.func.vmap(torch.sin)(x)
torch.func.grad(lambda t: t.sum())(x)
torch.jit.script(nn.Linear(2, 2))
torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.GELU()))
torch.testing.assert_close(x, x)
list(DataLoader(TensorDataset(x.detach()), batch_size=1))
torch.set_printoptions(precision=2)
str(x), repr(layer), format(x.sum())
with torch.no_grad(), torch.autocast('cpu'), torch.device('cpu'):
    layer(x)
with torch.inference_mode():
    layer(x)
layer.register_forward_hook(lambda *a: None)
hasattr(torch, '_dynamo') and torch.backends.mps.is_available()
torch.set_default_device('cpu')
""",
    "numpy and the standard library": """
import collections, contextlib, dataclasses, enum, functools, inspect, io, logging
import tempfile, traceback, typing, unittest, warnings
import numpy as np
np.random.default_rng(0).normal(size=3); np.fft.fft(np.ones(4))
np.linalg.svd(np.eye(2)); np.polynomial.Polynomial([1, 2])
Point = collections.namedtuple('Point', 'x y')
class Pair(typing.NamedTuple):
    a: int
@functools.lru_cache(maxsize=None)
def f(x): return x
f(1)
@dataclasses.dataclass
class C:
    def __post_init__(self): inspect.signature(f); inspect.currentframe()
C()
with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
    warnings.simplefilter('error')
    print('quiet')
warnings.filterwarnings('ignore')
np.seterr(divide='ignore')
logging.basicConfig(level=logging.INFO); logging.info('hello')
try: 1 / 0
except ZeroDivisionError: traceback.format_exc()
class T(unittest.TestCase):
    def test(self): self.assertEqual(1, 1)
unittest.TextTestRunner(stream=io.StringIO()).run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
""",
    "reading a data set that is not there": """
import os, sys, time
sys.setrecursionlimit(20_000)
time.tzset()
for path in ('input.txt', '/home/ada/input.txt', '../data/input.txt'):
    try: open(path).read()
    except OSError: pass
os.path.exists('/etc'), os.listdir('.'), open(os.devnull, 'w').write('x'), open('/dev/urandom', 'rb').read(4)
os.kill(os.getpid(), 0)
f = lambda: 0
f.__code__ = (lambda: 1).__code__
class A: pass
class B: pass
class D(A): pass
D.__bases__ = (B,)
D.__name__ = 'Renamed'
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0)) if False else resource.getrlimit(resource.RLIMIT_CORE)
""",
    "a helper module": "from parts.helper import Thing\nThing()",
    "an import hook of a library": "import sys\n"
    "from importlib.machinery import PathFinder\nsys.meta_path.append(PathFinder)",
    "deep recursion": "def f(n): return 0 if n == 0 else 1 + f(n - 1)\ntry: f(10**6)\nexcept RecursionError: pass",
}


def _scenario(text: str, look: str = "True", snapshot: bool = True, **files: str) -> dict[str, Any]:
    helpers = {"parts/__init__.py": "", "parts/helper.py": "class Thing: pass", **files}
    return {"files": {"model.py": text, **helpers}, "look": look, "snapshot": snapshot}


@functools.cache
def _results() -> dict[tuple[str, str], dict[str, Any]]:
    """Run every scenario once, all in one process that imports torch once."""
    jobs: dict[tuple[str, str], dict[str, Any]] = {}
    tables = {"tampering": TAMPERING, "side_effects": SIDE_EFFECTS, "notices": NOTICES}
    for kind, table in tables.items():
        jobs |= {(kind, name): _scenario(text, look) for name, (text, _, look) in table.items()}
    jobs |= {("honest", name): _scenario(text) for name, text in HONEST.items()}
    jobs |= SPECIAL
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, str(here / "watch_arena.py")],
        input=json.dumps(list(jobs.values())),
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(here.parent), "OMP_NUM_THREADS": "1", "LC_ALL": "C"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(jobs, json.loads(done.stdout), strict=True))


_CHAIN = """
import os
depth = 0
first = os.getpid()
try:
    while depth < 20:
        if os.fork() != 0:
            os.wait()
            break
        depth += 1
except OSError: pass
if os.getpid() != first: os._exit(0)
"""
SPECIAL: dict[tuple[str, str], dict[str, Any]] = {
    ("special", "chain"): _scenario(_CHAIN),
    ("special", "no snapshot"): _scenario("import torch\ntorch.equal = None", snapshot=False),
    ("special", "helper"): _scenario("import spy", **{"spy.py": "import gc\ngc.get_objects()"}),
    ("special", "memory"): _scenario("open('/proc/self/environ').read()"),
    ("special", "descriptor"): _scenario(
        "import os, sys\nopen(1, 'w', closefd=False).write('x')\nos.listdir(os.open('.', 0))"
    ),
    ("special", "affinity"): _scenario(
        "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})", "len(os.sched_getaffinity(0))"
    ),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_named_and_undone(name: str) -> None:
    result = _results()["tampering", name]
    assert any(TAMPERING[name][1] in sentence for sentence in result["tampering"]), result
    assert result["look"], result
    assert result["error"] == "" and not result["repeated"], result


@pytest.mark.parametrize("name", SIDE_EFFECTS)
def test_a_setting_left_changed_is_a_side_effect_and_is_undone(name: str) -> None:
    result = _results()["side_effects", name]
    assert len(result["side_effects"]) >= 1 and SIDE_EFFECTS[name][1] in result["side_effects"][0], result
    assert result["look"] is True and result["tampering"] == [], result
    assert not result["repeated"], result


@pytest.mark.parametrize("name", NOTICES)
def test_what_is_harmless_is_only_a_notice(name: str) -> None:
    result = _results()["notices", name]
    assert any(NOTICES[name][1] in sentence for sentence in result["notices"]), result
    assert result["tampering"] == result["side_effects"] == [], result
    assert result["look"] and result["error"] == "" and not result["repeated"], result


@pytest.mark.parametrize("name", HONEST)
def test_nothing_is_said_about_honest_code(name: str) -> None:
    result = _results()["honest", name]
    assert (result["tampering"], result["side_effects"], result["notices"], result["error"]) == ([], [], [], ""), result


def test_forks_are_counted_over_all_the_processes_that_a_submission_starts() -> None:
    assert any("many processes" in sentence for sentence in _results()["special", "chain"]["tampering"])


def test_a_watch_without_a_snapshot_takes_its_own() -> None:
    assert "functions of torch: equal" in _results()["special", "no snapshot"]["tampering"][0]


def test_a_helper_module_of_the_submission_is_student_code_too() -> None:
    assert "gc.get_objects" in _results()["special", "helper"]["tampering"][0]


@LINUX_ONLY
def test_reading_a_process_environment_through_proc_is_tampering() -> None:
    result = _results()["special", "memory"]
    assert "environment of a process" in result["tampering"][0] and "PermissionError" in result["error"]


def test_open_descriptors_are_not_files() -> None:
    result = _results()["special", "descriptor"]
    assert result["tampering"] == result["notices"] == [] and result["error"] == "", result


@LINUX_ONLY
def test_the_cpu_affinity_is_put_back() -> None:
    assert _results()["special", "affinity"]["look"] == len(os.sched_getaffinity(0))


def test_sentences_are_short_printable_unique_and_few() -> None:
    log = Log()
    for _ in range(2):
        for number in range(50):
            log.tamper(f"{number}\x1b[31m\n\u202e" + "x" * 1000)
    assert len(log.tampering) == len(set(log.tampering)) == MAX_SENTENCES
    assert all(len(sentence) <= MAX_LENGTH and sentence.isprintable() for sentence in log.tampering)


def test_a_long_list_of_names_says_how_many_more_there_are() -> None:
    assert listing(["a"]) == "a" and listing(["a", "b", "c"]) == "a, b and c"
    assert listing([str(i) for i in range(10)]) == "0, 1, 2, 3, 4, 5 and 4 more"


def test_a_working_directory_that_holds_the_grader_opens_nothing(tmp_path: Path) -> None:
    kit = tmp_path / "kit"
    paths = Paths(("/", str(tmp_path), str(tmp_path / "own")), str(kit))
    assert paths.kind(str(kit / "oracle" / "reference.py"), False) == "grader"
    assert paths.kind(str(kit / "__pycache__" / "grading.cpython-311.pyc"), False) == "grader"
    assert paths.kind(str(kit / "probe" / "host.py"), False) == ""
    assert paths.kind(str(tmp_path / "own" / "solutions" / "mine.py"), True) == ""
    assert paths.kind(str(tmp_path / "solutions"), False) == "grader"


def test_only_plain_paths_are_resolved(tmp_path: Path) -> None:
    class Hostile:
        def __fspath__(self) -> str:
            raise AssertionError("student code was run")

    assert resolve(Hostile()) is None and resolve(3) is None
    assert resolve(tmp_path) == resolve(str(tmp_path)) == resolve(os.fsencode(tmp_path)) == os.path.realpath(tmp_path)


def test_code_compiled_under_a_relative_name_is_known_by_the_files_of_the_submission(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("")
    callers = Callers(str(tmp_path), "/nowhere")
    scope: dict[str, Any] = {}
    exec(compile("import functools\ndef f(): pass\ng = functools.partial(f)", "model.py", "exec"), scope)
    assert callers.made(scope["f"]) and callers.made(scope["g"]) and not callers.made(json.dumps)
