"""`python -m tests.mutants [run|contexts|report|sample] [ARGUMENT…]`, from the root of the tree.

`run` tries the mutants that are not decided yet, in a copy of the tree. Ctrl-C ends it, and the
next `run` continues. `contexts` runs tests once to find out which of them execute which mutant; its
arguments are pytest's, and what several runs find is added up. `report` writes the page of the
reference. `sample` replaces mutants whose place has vanished from the source.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tests.mutants import report, sample, tree_copy
from tests.mutants.contexts import RESULTS
from tests.tiers import TREE


def main(arguments: Sequence[str]) -> int:
    """The exit status."""
    command, *others = arguments or ["run"]
    (TREE / RESULTS).mkdir(parents=True, exist_ok=True)
    match command:
        case "run":
            tree_copy.refresh()
            tree_copy.run_in_copy("tests.mutants.judge", str(TREE), *others)
        case "contexts":
            tree_copy.refresh()
            tree_copy.run_in_copy("tests.mutants.contexts", str(TREE), *others)
        case "report":
            report.write_page()
        case "sample":
            kept = sample.read() if sample.SAMPLE.exists() else []
            sample.write(sample.choose((each.mutant for each in sample.every_place()), kept))
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
