"""Two seconds that no hub, no command and no notebook needs: a grammar that is compiled at import.

jsonschema, which JupyterHub and Jupyter Server import for their events, imports `rfc3987_syntax` to
offer a format that hardly any schema uses. Compiling its grammar is half of their whole start.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

NAME = "rfc3987_syntax"


def defer() -> None:
    """Compile it only when somebody checks an IRI. To be called before anything imports jsonschema.

    `importlib.util.LazyLoader` does not help: jsonschema takes a name out of it at once.
    """
    if NAME in sys.modules or importlib.util.find_spec(NAME) is None:
        return
    stand_in = ModuleType(NAME, f"Stands in for {NAME} until somebody checks an IRI.")

    def is_valid_syntax(term: str, value: str) -> bool:
        if sys.modules.get(NAME) is stand_in:
            del sys.modules[NAME]
        return bool(importlib.import_module(NAME).is_valid_syntax(term, value))

    stand_in.is_valid_syntax = is_valid_syntax  # type: ignore[attr-defined]
    sys.modules[NAME] = stand_in
