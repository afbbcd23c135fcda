"""A GitHub Classroom workflow: one grading step a part of the course, and the reporter that sends the points."""

from __future__ import annotations

import json
import math
import shlex

from autograder.track import Track

#: GitHub's runners have two to four cores; the whole course takes half a minute there, the first import some more.
_MINUTES = 5

_HEAD = """\
# Made by `workshop export github`. Commit it to the template repository as .github/workflows/classroom.yml
name: Autograding Tests
on:
  - push
  - workflow_dispatch
  - repository_dispatch
permissions:
  checks: write
  actions: read
  contents: read
jobs:
  run-autograding-tests:
    runs-on: ubuntu-latest
    if: github.actor != 'github-classroom[bot]'
    steps:
      - name: Checkout code
        uses: actions/checkout@v4
      - name: Set up Python
        uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install the kit
        run: {install}
"""
_STEP = """\
      - name: {name}
        id: {id}
        uses: classroom-resources/autograding-command-grader@v1
        with:
          test-name: {name}
          setup-command: ""
          command: {command}
          timeout: {minutes}
          max-score: {points}
"""
_REPORTER = """\
      - name: Autograding Reporter
        uses: classroom-resources/autograding-grading-reporter@v1
        env:
{results}
        with:
          runners: {runners}
"""


def workflow(track: Track, kit: str) -> str:
    """Return the workflow file. `kit` is what pip installs the kit from.

    A part gives all of its points or none, as that grader has it; points are whole numbers there, rounded up.
    """
    install = f"pip install {shlex.quote(kit)}"
    steps = [
        _STEP.format(
            name=_quoted(f"{part.name}: {part.class_name}"),
            id=_id(part.name),
            command=_quoted(f"workshop check {shlex.quote(part.name)} --track {shlex.quote(track.name)} --no-progress"),
            minutes=_MINUTES,
            points=math.ceil(part.max_score),
        )
        for part in track.parts
    ]
    ids = [_id(part.name) for part in track.parts]
    results = "\n".join(f'          {name.upper()}_RESULTS: "${{{{steps.{name}.outputs.result}}}}"' for name in ids)
    reporter = _REPORTER.format(results=results, runners=",".join(ids))
    return _HEAD.format(install=_quoted(install)) + "".join(steps) + reporter


def _id(name: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name.lower())


def _quoted(text: str) -> str:
    return json.dumps(text)  # a JSON string is a YAML string
