"""Programs of this environment are found though it is not activated, as in the README's test command."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_programs_of_an_environment_that_is_not_activated_are_found():
    command = [sys.executable, "-c", "from tests.programs import program; print(program('check-jsonschema'))"]
    asked = subprocess.run(command, env={"PATH": ""}, cwd=ROOT, capture_output=True, text=True, check=True)
    assert Path(asked.stdout.strip()).is_file()
