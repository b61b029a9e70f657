"""`python -m torch.distributed.run`: one process of the script, in a session of its own.

As torch's, it hands SIGTERM to the script, waits for it, and ends with status 1.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from types import FrameType


class Signalled(Exception):
    pass


def raise_signalled(number: int, frame: FrameType | None) -> None:
    raise Signalled


def main() -> int:
    argv = sys.argv[1:]
    at = next(place for place, word in enumerate(argv) if not word.startswith("--"))
    print(json.dumps({"options": argv[:at]}), flush=True)
    signal.signal(signal.SIGTERM, raise_signalled)
    script = subprocess.Popen([sys.executable, "-u", *argv[at:]], start_new_session=True)
    try:
        return min(script.wait(), 1)
    except Signalled:
        script.terminate()
        script.wait()
        return 1


if __name__ == "__main__":
    sys.exit(main())
