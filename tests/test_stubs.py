"""The type stubs are generated from the registry, and are current."""
import pathlib
import subprocess
import sys


def test_stubs_are_current():
    tool = pathlib.Path(__file__).resolve().parent.parent / "tools" / "make_stubs.py"
    got = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert got.returncode == 0, got.stdout + got.stderr
