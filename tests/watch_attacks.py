"""Student texts that cannot be a mistake, what the watch must say of each, and how to see that it was undone."""

from __future__ import annotations

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
