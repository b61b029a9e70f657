"""`c.EC2Spawner.image`: which AMI instances boot, and what is installed on one that lacks us."""

from __future__ import annotations

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...provisioner.model.cloud.image import ImageQuery
from ..values import ImageId, Texts, Words, shown, wrong

DEEP_LEARNING_AMI: Final = (
    "/aws/service/deeplearning/ami/{architecture}"
    "/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
)
"""Public SSM parameter of the newest base Deep Learning AMI with Ubuntu 24.04: driver, CUDA,
Python 3.12, and no framework that would only be disk to load. It exists for x86_64 and arm64, in
every region that has the AMI. From its release notes in AWS's DLAMI developer guide, read in
November 2026."""

_FORMS: Final = (
    'an id such as "ami-0a1b2c3d", an SSM parameter such as "/my/image", or '
    '{"name": "notebooks-*", "owners": ["self"]}'
)


def _parameter(value: str) -> str:
    # SSM's own rule for names; braces for the architecture.
    if value and not re.fullmatch(r"/[\w./{}-]{1,1000}", value):
        wrong(f"{shown(value)} is no name of an SSM parameter", f"write {_FORMS}")
    if "{" in value.replace("{architecture}", "") or "}" in value.replace("{architecture}", ""):
        wrong(f"{shown(value)} has another placeholder", "{architecture} is the only one")
    return value


def _owners(value: tuple[str, ...]) -> tuple[str, ...]:
    for owner in value:
        if not re.fullmatch(r"\d{12}|self|amazon|aws-marketplace", owner):
            wrong(
                f"{shown(owner)} is no owner of images", 'write "self", "amazon" or "123456789012"'
            )
    return value


_CONTAINER: Final = re.compile(
    r"[a-z0-9](?:[\w.-]*[a-z0-9])?(?::\d{1,5})?(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
"""A reference of the OCI distribution specification, with a tag or a digest."""


def _container(value: str) -> str:
    if value and not _CONTAINER.fullmatch(value):
        wrong(
            f"{shown(value)} is no container image",
            'write one such as "quay.io/jupyter/pytorch-notebook:cuda12-2026-11-16", or '
            '"...@sha256:..." for exactly one build',
        )
    return value


class ImageConfig(Words):
    """Which image: exactly one of `id`, `parameter` and `name`. A text instead of the dict is an
    `id`, or a `parameter` where it begins with `/`."""

    id: ImageId = Field(
        default="", description="Id of an AMI in the region.", examples=["ami-0a1b2c3d"]
    )
    parameter: Annotated[str, AfterValidator(_parameter)] = Field(
        default="",
        description="Name of an SSM parameter that holds the id of an AMI. `{architecture}` in it "
        "is replaced by the hub's `architecture`.",
        examples=[DEEP_LEARNING_AMI],
    )
    name: str = Field(
        default="",
        max_length=128,
        description="Name of AMIs, with `*` for any text: the newest available one of the hub's "
        "`architecture` is used.",
        examples=["notebooks-*"],
    )
    owners: Annotated[Texts, AfterValidator(_owners)] = Field(
        default=("self",),
        description="Owners of AMIs matched by `name`: account numbers, `self` for your own "
        "account, or `amazon`. Anyone can publish an image under any name, so there is no value "
        "for everyone.",
        examples=[["self"]],
    )

    container: Annotated[str, AfterValidator(_container)] = Field(
        default="",
        max_length=500,
        description="Container image in which the notebook server runs on the instance: a new "
        "container at each start, with the home, all mounts and all GPUs. A tag is pulled at each "
        "start, a digest only once. The image needs `jupyterhub-singleuser` of the hub's major "
        "version, and `ec2spawner[notebook]` for cost and countdown; the AMI needs docker, podman "
        "or nerdctl, and NVIDIA's container toolkit. Empty runs the server on the AMI itself.",
        examples=["quay.io/jupyter/pytorch-notebook:cuda12-2026-11-16"],
    )

    @model_validator(mode="after")
    def _one_way_of_saying_it(self) -> Self:
        said = [word for word in (self.id, self.parameter, self.name) if word]
        if not said and self.container:
            return self.model_copy(update={"parameter": DEEP_LEARNING_AMI})
        if not said:
            wrong("names no image", "leave it out for the newest Deep Learning AMI of the region")
        if len(said) > 1:
            wrong("names an image in more than one way", "keep one of id, parameter and name")
        if not self.owners:
            wrong("says nobody's images", 'for example "owners": ["self"]')
        return self

    @property
    def is_stock(self) -> bool:
        """True for one of AWS's own Deep Learning AMIs, which has no ec2spawner in it."""
        return self.parameter.startswith("/aws/service/deeplearning/")

    def query(self, architecture: str) -> ImageQuery:
        """What to ask EC2 for; `architecture` is EC2's name, such as `x86_64`."""
        return ImageQuery(
            image_id=self.id,
            name=self.name,
            owners=self.owners if self.name else (),
            parameter=self.parameter.replace("{architecture}", architecture),
            architecture=architecture,
        )


def from_text(value: object) -> object:
    """A text is short for an id or a parameter. For use as a pydantic validator."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.startswith("/"):
        return {"parameter": text}
    if text and not re.fullmatch(r"ami-[0-9a-z]+", text):
        wrong(f"{shown(text)} is no image", f"write {_FORMS}")
    return {"id": text}


_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w.,-]+\])?\s*==\s*\d[\w.+!]*")

_PACKAGE_FORMS: Final = (
    'a version, such as "ec2spawner[notebook]==0.1.0", the https address of a wheel, best with its '
    '"#sha256=..." at the end, or the path of a wheel on the image'
)


def _package(value: str) -> str:
    """What every instance installs as root: only what nobody on the way can exchange."""
    if not value:
        return value
    fix = f"write {_PACKAGE_FORMS}"
    if not re.fullmatch(r"[A-Za-z0-9/][\x20-\x7e]{0,1000}", value):
        wrong(f"{shown(value)} is no package", fix)
    if re.search(r"://[^/]*@", value):
        # Not quoted: it holds a password.
        wrong(
            "has a password in its address, which every user of an instance could read",
            "use an address that the instances' network or role opens",
        )
    address = value.rpartition(" @ ")[2]
    if "://" in address:
        if not address.startswith(("https://", "file:///")):
            wrong(f"{shown(value)} is not fetched over HTTPS", fix)
    elif not address.startswith("/") and not _PINNED.fullmatch(value):
        wrong(f"{shown(value)} names no version", fix)
    return value


AgentPackage = Annotated[str, AfterValidator(_package)]
ImageWords = Annotated[ImageConfig, BeforeValidator(from_text)]
