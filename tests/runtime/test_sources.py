"""The C++ sources as text."""
import collections
import re
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "csrc"


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources are not beside the tests")
def test_a_type_has_one_definition():
    """Files share one namespace: two types of one name would share the templates made from them, and crash when the files are optimised together."""
    places = collections.defaultdict(list)
    for path in sorted(SOURCES.iterdir()):
        for name in re.findall(r"^(?:struct|class|union|enum class|enum) (\w+)[^;\n]*\{", path.read_text(), re.MULTILINE): places[name].append(path.name)
    assert len(places) > 50
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
