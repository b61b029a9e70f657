"""`ec2spawner load-test`: many simulated users at one JupyterHub, and a report.

The users run in a child process, by locust (`locustfile`); `user` is what one of them does. The
command itself reads the price, measures the hub's health, holds the budget, and stops whatever the
child leaves running. Any JupyterHub will do that serves users below its own address, with any
spawner.
"""

from pathlib import Path
from typing import Final

LOCUSTFILE: Final = str(Path(__file__).with_name("locustfile.py"))
"""For locust's own command: its web page, or workers on several machines."""
