"""Two seconds that no hub, no command and no notebook needs: a grammar that is compiled at import.

jsonschema, which JupyterHub and Jupyter Server import for their events, imports `rfc3987_syntax` to
offer a format that hardly any schema uses. Compiling its grammar is half of their whole start.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from typing import Any

NAME = "rfc3987_syntax"


def defer() -> None:
    """Compile it only when somebody checks an IRI. To be called before anything imports jsonschema.

    `importlib.util.LazyLoader` does not help: jsonschema takes a name out of it at once.
    """
    if NAME in sys.modules:
        return
    spec = importlib.util.find_spec(NAME)
    if spec is None or spec.loader is None:
        return
    loader, module = spec.loader, importlib.util.module_from_spec(spec)
    lock = threading.RLock()

    def load() -> None:
        """Run the module in its own place, once: whoever has it, has the real one then."""
        with lock:
            if "__getattr__" in vars(module):
                loader.exec_module(module)
                del vars(module)["__getattr__"]

    def is_valid_syntax(term: str, value: str) -> bool:
        load()
        return bool(module.is_valid_syntax(term, value))

    def attribute(name: str) -> Any:
        # Whoever looks through all modules asks each for such a name, and needs nothing of it.
        if name.startswith("__"):
            raise AttributeError(f"module {NAME!r} has no attribute {name!r}")
        load()
        return getattr(module, name)

    vars(module).update(is_valid_syntax=is_valid_syntax, __getattr__=attribute)
    sys.modules[NAME] = module
