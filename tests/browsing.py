"""A browser for tests: chromium driven by Playwright, a JupyterLab of `workshop lab`, screenshots to look at.

Nothing here is imported where Playwright is not installed: the tests that need it are skipped with the reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parent.parent
#: Kept after the tests, to be looked at; git ignores it.
SCREENSHOTS = ROOT / "screenshots"
#: Milliseconds until a step of a page counts as failed: a kernel that imports torch on a busy machine takes its time.
PATIENCE = 120_000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_PACKAGES = ("playwright", "axe_playwright_python", "jupyterlab", "nbgrader")
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Folders of Jupyter and its kernels: nothing of the user's is read or written.
_OWN = (
    "HOME",
    "IPYTHONDIR",
    "JUPYTERLAB_WORKSPACES_DIR",
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
)
#: No news, no search for updates (there is no network), and every cell in the page, also below the fold.
_SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
    "notebook-extension/tracker": {"windowingMode": "none"},
}


def missing() -> str:
    """Return why there can be no browser test here, in a sentence, or ""."""
    absent = [
        name for name in ("playwright", "axe_playwright_python", "jupyterlab") if not importlib.util.find_spec(name)
    ]
    if absent:
        return f"{', '.join(absent)} not installed: pip install -c constraints.txt '.[browser]'"
    if _executable() is None:
        return "no browser here (chromium, on Debian and Ubuntu: apt install chromium)"
    return ""


def _executable() -> str | None:
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Open a headless browser that reaches this machine alone, and close it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(
            executable_path=_executable(),
            args=[*_FLAGS, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        try:
            yield browser
        finally:
            browser.close()


def jupyterlab(place: Path) -> AbstractContextManager[str]:
    """Start `workshop lab` on the folder `place`/my_gpt, give its address, and end it."""
    return _serving(["-m", "autograder", "lab", "my_gpt", "--no-browser", "--"], place, place)


def jupyterlab_of_course(course: Path, place: Path) -> AbstractContextManager[str]:
    """Start JupyterLab as an instructor does, in the folder of an nbgrader course."""
    return _serving(["-m", "jupyterlab", "--no-browser"], course, place)


@contextmanager
def _serving(command: list[str], folder: Path, place: Path) -> Iterator[str]:
    """Run a server in `folder` whose home is in `place`."""
    settings = place / "settings"
    for name, values in _SETTINGS.items():
        file = settings / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values), encoding="utf-8")
    environment = {**os.environ, **{name: str(place / name.lower()) for name in _OWN}}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(settings), "PYTHONPATH": str(ROOT)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    for name in _OWN:
        Path(environment[name]).mkdir(exist_ok=True)
    port = _free_port()
    options = (
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
        "--ServerApp.disable_check_xsrf=True",  # the test itself asks it to shut down
        "--ServerApp.allow_root=True",
    )
    whole = [sys.executable, *command, *options]
    with (place / "lab.log").open("wb") as log:
        server = subprocess.Popen(whole, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(f"{address}/api/status", server, place / "lab.log")
            yield address
        finally:
            _end(server, address)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE / 1000
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"JupyterLab does not answer:\n{log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _end(server: subprocess.Popen[bytes], address: str) -> None:
    """Ask the server to go, with its kernels; if it does not, end all that it started."""
    try:
        request = urllib.request.Request(f"{address}/api/shutdown", method="POST")
        with urllib.request.urlopen(request, timeout=5):
            pass
        server.wait(20)
    except (OSError, subprocess.TimeoutExpired):
        os.killpg(server.pid, 9)
        server.wait(10)
