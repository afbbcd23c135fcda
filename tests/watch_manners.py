"""Student texts that are honest, or only careless: what the watch says of each, and how to see that it was undone."""

from __future__ import annotations

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

#: name -> (what is done, words of the sentence, an expression that is true when it is undone)
SIDE_EFFECTS: dict[str, tuple[str, str, str]] = {
    "functional, which stays: the submission's own layers count on it": (
        "import torch.nn.functional as F\nF.mse_loss = lambda *a: 0",
        "replaces functions of torch.nn.functional for everybody: mse_loss",
        "torch.nn.functional.mse_loss(1, 2) == 0",
    ),
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
    "matmul precision": (
        "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True",
        "changes float32 matmul precision",
        "torch.get_float32_matmul_precision() == 'highest'",
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
