"""Where servers are to sleep that can save nothing."""

from __future__ import annotations

from collections.abc import Iterator

from .entries.idle import IdleConfig
from .options import Options
from .problem import Problem


def unsaved_sleep(options: Options) -> tuple[Problem, ...]:
    """Each `"then": "sleep"` that somebody has written and that stops servers like `"stop"`,
    because they have no home or may not save. It keeps no hub from starting: a default is neither
    wrong nor worth a word."""
    if options.home.kind == "none":
        why, fix = 'home is of kind "none", so nothing is kept', 'use a home of kind "ebs" or "efs"'
    elif not options.sleep.save:
        why, fix = 'sleep["save"] is 0, so nothing is saved', 'write {"save": "5m"}'
    else:
        return ()
    return tuple(
        Problem(
            option,
            f'"sleep" stops servers without their variables: {why}',
            f'{fix}, or write {{"then": "stop"}}',
        )
        for option, words in _written(options)
        if "then" in words.model_fields_set and words.then == "sleep"
    )


def _written(options: Options) -> Iterator[tuple[str, IdleConfig]]:
    yield "c.EC2Spawner.idle", options.idle
    for group, words in options.idle_by_group.items():
        yield f'c.EC2Spawner.idle_by_group["{group}"]', words
    for index, profile in enumerate(options.profiles):
        yield f'c.EC2Spawner.profile_list[{index}].idle ("{profile.display_name}")', profile.idle
