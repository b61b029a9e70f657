"""Options that a hub's file sets and nothing reads, or that traitlets cannot read. Pure.

JupyterHub starts with both a misspelt class and a misspelt option: the first is ignored without a
word, the second with a line in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from traitlets import HasTraits, TraitError
from traitlets.config import Config, Configurable
from traitlets.config.loader import LazyConfigValue

from ..config.values import suggest
from .finding import Finding, failed, warning
from .topics import Topic

OURS = "EC2Spawner"
"""The class whose misspelt options are found with its other problems."""


def unread_options(config: Config, classes: Iterable[type[HasTraits]]) -> list[Finding]:
    """A finding for each class and each option in `config` that `classes`, those that the hub
    loads, do not have.

    A class of an unknown name may belong to a service or a plugin, or be one that this hub does not
    use now: only a name that is nearly one of `classes` is a finding.
    """
    loaded = tuple(classes)
    by_name: dict[str, type[HasTraits]] = {
        base.__name__: base
        for each in loaded
        for base in each.__mro__
        if issubclass(base, Configurable)
    }
    return [
        finding
        for section, options in config.items()
        if isinstance(options, Mapping) and section != OURS
        for finding in (
            _options(section, options, by_name[section], loaded)
            if section in by_name
            else _class(section, by_name)
        )
    ]


def _class(section: str, known: Iterable[str]) -> Iterator[Finding]:
    meant = next((name for name in known if _is_misspelt(section, name)), "")
    if meant:
        wrong = "there is no such class, so what is set there has no effect"
        yield failed(Topic.OPTION, wrong, f"did you mean c.{meant}?", name=f"c.{section}")


def _is_misspelt(wrote: str, name: str) -> bool:
    """Whether one letter is missing, too many or wrong, two are exchanged, or only their case
    differs: `LDAPAuthenticator` is another class than `Authenticator`."""
    one, other = wrote.casefold(), name.casefold()
    if len(one) > len(other):
        one, other = other, one
    begin = next((i for i, letter in enumerate(one) if letter != other[i]), len(one))
    if len(one) < len(other):
        return one[begin:] == other[begin + 1 :]
    exchanged = one[begin : begin + 2] == other[begin : begin + 2][::-1]
    return one[begin + 1 :] == other[begin + 1 :] or (
        exchanged and one[begin + 2 :] == other[begin + 2 :]
    )


def _options(
    section: str,
    options: Mapping[str, object],
    of: type[HasTraits],
    loaded: Iterable[type[HasTraits]],
) -> Iterator[Finding]:
    readers = (each for each in loaded if issubclass(each, of))
    known = {name for each in readers for name in each.class_trait_names(config=True)}
    for name in options:
        # A capital begins the name of a class: options for it within this one.
        if name not in known and not name[:1].isupper():
            wrong = "there is no such option, so it has no effect"
            yield warning(Topic.OPTION, wrong, suggest(name, known), name=f"c.{section}.{name}")


def unreadable_options(config: Config, of: type[Configurable]) -> list[Finding]:
    """A failure for each option of a class with a value of a wrong kind, such as None for text."""
    findings = []
    for name, value in config.get(of.__name__, {}).items():
        if isinstance(value, LazyConfigValue) or name not in of.class_trait_names(config=True):
            continue
        try:
            of(config=Config({of.__name__: {name: value}}))
        except TraitError:
            kind = "None" if value is None else f"of the type {type(value).__name__}"
            wrong = f"is {kind}, where it must be {of.class_traits()[name].info()}"
            fix = "write it as in docs/reference/configuration.md, or remove it for its default"
            findings.append(failed(Topic.OPTION, wrong, fix, name=f"c.{of.__name__}.{name}"))
    return findings
