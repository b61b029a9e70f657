"""The grammar of IRIs costs nobody a start, and is there for who asks."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_the_iri_grammar_is_compiled_for_who_asks() -> None:
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


def test_commands_do_not_wait_for_it() -> None:
    code = (
        "import sys\n"
        "from ec2spawner.cli import main\n"
        "status = main(['check', '--config=/nonexistent/jupyterhub_config.py', '--json'])\n"
        "assert status == 1 and 'jupyterhub.app' in sys.modules\n"
        "assert 'lark' not in sys.modules, 'compiled'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
