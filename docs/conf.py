"""Sphinx: `python -m sphinx -W --keep-going -b html docs docs/_build/html`."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import ec2spawner  # noqa: E402 - found by the path above where it is not installed

project = "ec2spawner"
author = "ec2spawner contributors"
copyright = "ec2spawner contributors, BSD-3-Clause"
version = release = ec2spawner.__version__

extensions = ["myst_parser", "configuration_reference", "command_reference"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "ec2spawner"
html_copy_source = False
html_show_sphinx = False
