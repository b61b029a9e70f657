"""The units that needrestart restarts, by its configuration, which is Perl."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

_DECIDES = r"""
our %nrconf = (defno => 0, override_rc => {qr(^docker) => 0, qr(^dbus) => 0});
my $file = shift @ARGV;
eval do { local(@ARGV, $/) = $file; <> };
die $@ if $@;
for my $unit (@ARGV) {
    my ($key) = grep { $unit =~ /$_/ } sort keys %{$nrconf{override_rc}};
    print "$unit\n" if !defined $key || $nrconf{override_rc}->{$key};
}
"""
"""As needrestart reads `conf.d` after its own file, which has these two entries among others."""


def restarted(configuration: Path, units: Collection[str]) -> set[str]:
    """Return the units that needrestart restarts when they use a library that apt replaced."""
    command = ["perl", "-e", _DECIDES, str(configuration), *units]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())
