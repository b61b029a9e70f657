"""Which kernel executes a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from nbformat import NotebookNode

from .execution import CannotExecute

DEFAULT: Final = "python3"


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """A kernel of this image."""

    name: str
    is_python: bool
    note: str = ""
    """That it is another one than the notebook's, in words."""


def choose_kernel(kernels: KernelSpecManager, notebook: NotebookNode) -> KernelChoice:
    """The notebook's own; if this image does not have that, the default one for a notebook in
    Python. Raises `CannotExecute`. Blocks: reads files."""
    wanted = _said(notebook, "kernelspec", "name") or DEFAULT
    try:
        return KernelChoice(wanted, _is_python(kernels, wanted))
    except NoSuchKernel:
        pass
    language = _language(notebook)
    if language not in {"", "python"}:
        raise CannotExecute(
            f"The notebook's kernel {wanted!r} ({language}) is not on the image of this run: "
            "choose a profile whose image has it."
        )
    try:
        is_python = _is_python(kernels, DEFAULT)
    except NoSuchKernel as error:
        raise CannotExecute("The image of this run has no Python kernel.") from error
    note = f"The kernel {wanted!r} is not on this image: {DEFAULT!r} executed the notebook."
    return KernelChoice(DEFAULT, is_python, note)


def _is_python(kernels: KernelSpecManager, name: str) -> bool:
    """Raises `NoSuchKernel`."""
    return str(kernels.get_kernel_spec(name).language).lower() == "python"


def _language(notebook: NotebookNode) -> str:
    """That of the notebook, as it says itself; empty if it does not."""
    of_kernel = _said(notebook, "kernelspec", "language")
    return (of_kernel or _said(notebook, "language_info", "name")).lower()


def _said(notebook: NotebookNode, part: str, field: str) -> str:
    """What the notebook's metadata has there; empty for nothing, and for what is no text."""
    found = notebook.metadata.get(part)
    value = found.get(field) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""
