"""Which options are ours, and which are JupyterHub's."""

from __future__ import annotations

from ec2spawner.cli import parse


def test_what_is_not_ours_word_for_word_is_jupyterhubs() -> None:
    foreign = ["--da=x", "--por", "9", "--js", "--debug", "--EC2Spawner.idle={}"]
    arguments, for_the_hub = parse(["demo", "--data-dir=d", *foreign, "--port=7"])
    assert for_the_hub == foreign
    assert (arguments.data_dir, arguments.port, arguments.json) == ("d", 7, False)
