"""The error of a notebook server that does not start or that ended."""

from __future__ import annotations


class NotebookError(Exception):
    """The server ended or did not start; the message is for people."""
