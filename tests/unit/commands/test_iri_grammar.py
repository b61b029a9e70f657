"""The IRI grammar delays no start, and is available on use."""

from __future__ import annotations

import subprocess
import sys

import pytest

AT_NIGHT = pytest.mark.nightly(
    guard="tests/unit/commands/test_iri_grammar.py::test_until_then_it_is_an_ordinary_module"
)
"""Each use compiles the grammar, for two seconds."""


@AT_NIGHT
def test_the_iri_grammar_is_compiled_on_first_use() -> None:
    pytest.importorskip("rfc3987_syntax")
    code = (
        "import sys\n"
        "from ec2spawner import iri_grammar\n"
        "iri_grammar.defer()\n"
        "from jsonschema import Draft7Validator\n"
        "assert 'lark' not in sys.modules, 'compiled by the import'\n"
        "schema = {'type': 'string', 'format': 'iri'}\n"
        "check = Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER).is_valid\n"
        "assert check('http://example.org/\\u00e9') and not check('not an iri')\n"
        "assert 'lark' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "used",
    [
        (
            "check = m.is_valid_syntax; assert 'iri' in m.RFC3987_SYNTAX_TERMS; "
            "assert check('iri', 'http://a.b/c'), 'taken before'"
        ),
        pytest.param(
            "assert importlib.reload(m) is m and m.is_valid_syntax('iri', 'http://a.b/c')",
            marks=AT_NIGHT,
        ),
        pytest.param(
            "import rfc3987_syntax.syntax_helpers as h; m.is_valid_syntax('iri', 'http://a.b'); "
            "assert m.syntax_helpers is h and m.utils and sys.modules['rfc3987_syntax'] is m",
            marks=AT_NIGHT,
        ),
    ],
)
def test_until_then_it_is_an_ordinary_module(used: str) -> None:
    pytest.importorskip("rfc3987_syntax")
    code = (
        "import importlib, importlib.util, inspect, pkgutil, sys\n"
        "from ec2spawner import iri_grammar\n"
        "iri_grammar.defer()\n"
        "import rfc3987_syntax as m\n"
        "assert importlib.util.find_spec('rfc3987_syntax') is m.__spec__\n"
        "assert inspect.getfile(m) == m.__spec__.origin\n"
        "assert 'utils' in [each.name for each in pkgutil.iter_modules(m.__path__)]\n"
        "[hasattr(each, '__wrapped__') for each in list(sys.modules.values())]\n"
        "assert 'lark' not in sys.modules, 'compiled for nothing'\n"
        f"{used}\n"
        "assert 'lark' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_commands_do_not_wait_for_it() -> None:
    code = (
        "import sys\n"
        "from ec2spawner.cli import main\n"
        "status = main(['check', '--config=/nonexistent/jupyterhub_config.py', '--json'])\n"
        "assert status == 1 and 'jupyterhub.app' in sys.modules\n"
        "assert 'lark' not in sys.modules, 'compiled'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
