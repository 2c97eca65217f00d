"""Everything here compares with torch 2.13 and is skipped where torch is absent."""
import pytest

torch = pytest.importorskip("torch", reason="the conformance suite compares with torch 2.13.0")
