"""Everything here compares with torch 2.13; where torch is absent nothing of it is collected, and the run says so."""
import importlib.util
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
HAVE_TORCH = importlib.util.find_spec("torch") is not None
collect_ignore_glob = [] if HAVE_TORCH else ["test_*.py"]


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """torch's threads cost more than they bring at these sizes, most of all beside another process."""
    import torch
    torch.set_num_threads(1)


def pytest_terminal_summary(terminalreporter):
    if not HAVE_TORCH:
        terminalreporter.write_line("conformance suite skipped: torch 2.13.0 is not installed")
