"""Random programs sleep and wake: each variable is as it was, or is listed.

`python -m tests.unit.sleep.program_runner 0 20000` runs many; a seed that fails becomes a case in
`test_comes_back_equal`.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.sleep.program_runner import run


@pytest.mark.slow(seconds=10)
@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_each_variable_is_as_it_was_or_is_listed(seed: int) -> None:
    ran = run(seed)
    assert not ran.wrong, "\n".join(f"{name}: {what}" for name, what in ran.wrong.items())
