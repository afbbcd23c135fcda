"""Claims about the files beside the code: the image's recipe, the devcontainer, the citation, the security policy."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from test_guide_commands import unknown

from autograder import __version__

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KNOWN = {"ARG", "CMD", "COPY", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "USER", "WORKDIR"}


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Containerfile: comments left out, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in joined.splitlines() if line.strip()]


def faults(text: str) -> list[str]:
    """Return what is wrong with a Containerfile, in the spirit of hadolint: one sentence each."""
    steps = instructions(text)
    of = {kind: [words for name, words in steps if name == kind] for kind in KNOWN}
    found = [f"{name} is no instruction that we use" for name, _ in steps if name not in KNOWN]
    if not steps or steps[0][0] != "FROM":
        found.append("it does not begin with FROM")
    found += [f"{base} has no fixed tag" for base in of["FROM"] if ":" not in base or base.endswith(":latest")]
    if not of["USER"] or of["USER"][-1] in ("root", "0"):
        found.append("it runs as root")
    found += [f"WORKDIR {place} is not absolute" for place in of["WORKDIR"] if not place.startswith("/")]
    if len(of["CMD"]) != 1 or not isinstance(json.loads(of["CMD"][0]), list):
        found.append("it has not one CMD, in JSON form")
    for command in of["RUN"]:
        if "pip install" in command and "--constraint constraints.txt" not in command:
            found.append("pip installs what is not pinned")
        if re.search(r"\bsudo\b|curl|wget|\|\s*(ba)?sh\b", command):
            found.append("it runs what it fetched, or sudo")
        if "apt-get install" in command and "rm -rf /var/lib/apt/lists" not in command:
            found.append("it keeps apt's lists")
    if not any("PIP_NO_CACHE_DIR=1" in words for words in of["ENV"]):
        found.append("it keeps pip's cache")
    return found


GOOD = (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_the_containerfile_has_no_fault() -> None:
    assert faults(GOOD) == []


@pytest.mark.parametrize(
    ("find", "replace", "fault"),
    [
        ("python:3.12-slim-bookworm", "python", "fixed tag"),
        ("USER learner", "USER root", "as root"),
        ("--constraint constraints.txt ", "", "not pinned"),
        ("WORKDIR /opt/kit", "WORKDIR kit", "not absolute"),
        ("PIP_NO_CACHE_DIR=1", "X=1", "pip's cache"),
        ("COPY . .", "ADD https://example.org/kit.tar .", "ADD is no instruction"),
        ("&& useradd", "&& curl x | sh && useradd", "what it fetched"),
    ],
)
def test_the_rules_for_it_see_what_they_are_for(find: str, replace: str, fault: str) -> None:
    assert find in GOOD
    assert any(fault in sentence for sentence in faults(GOOD.replace(find, replace)))


def test_the_image_installs_extras_that_exist_and_starts_a_command_that_can_be_typed() -> None:
    (extras,) = re.findall(r"'\.\[([^\]]+)\]'", GOOD)
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    (command,) = [words for name, words in instructions(GOOD) if name == "CMD"]
    words = json.loads(command)
    assert words[0] == "workshop" and unknown(" ".join(words)) == ""
    (version,) = re.findall(r"python:(3\.\d+)-", GOOD)
    assert f"Programming Language :: Python :: {version}" in PROJECT["project"]["classifiers"]


def test_neither_history_nor_grades_nor_environments_get_into_an_image() -> None:
    ignored = (ROOT / ".containerignore").read_text(encoding="utf-8")
    assert ignored == (ROOT / ".dockerignore").read_text(encoding="utf-8")
    assert {".git", "**/.venv", "grades", "submissions", "runs"} <= set(ignored.split())
    needed = ("autograder", "solutions", "exercises", "pyproject.toml", "constraints.txt", "README.md", "LICENSE")
    assert not set(needed) & set(ignored.split())


def test_the_devcontainer_is_json_and_names_a_target_and_a_python_that_exist() -> None:
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
    assert re.fullmatch(r"mcr\.microsoft\.com/devcontainers/python:\d+-3\.(11|12|13)-\w+", settings["image"])
    target = settings["postCreateCommand"].removeprefix("make ")
    assert f"\n{target}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert ".venv/bin" in settings["remoteEnv"]["PATH"]
    known = {"name", "image", "hostRequirements", "postCreateCommand", "remoteEnv", "forwardPorts", "customizations"}
    assert set(settings) == known


def test_the_citation_has_what_its_format_demands_and_the_kits_version() -> None:
    """The keys of the Citation File Format 1.2.0 (cffconvert accepts the file; it is no dependency of the tests)."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0" and citation["type"] == "software"
    assert {"message", "title", "authors"} <= set(citation)
    allowed = {"cff-version", "message", "type", "title", "abstract", "authors", "version", "license", "keywords"}
    assert set(citation) <= allowed
    assert all(set(author) == {"name"} for author in citation["authors"])
    assert citation["version"] == __version__
    assert citation["license"] == PROJECT["project"]["license"]


def test_the_security_policy_says_what_is_promised_what_is_not_and_how_to_report() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for heading in ("## What is promised", "## What is not promised", "## Report a hole", "## Versions"):
        assert heading in text
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
