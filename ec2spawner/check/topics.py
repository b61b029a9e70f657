"""What the check looks at: a stable code for each, explained on the page of findings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum


class Section(StrEnum):
    """The groups of the report, in its order."""

    CONFIGURATION = "Configuration"
    MACHINE = "The hub's machine"
    ACCOUNT = "AWS account"
    NETWORK = "Network"
    IMAGE = "Image"
    FILES = "Files"
    PROFILES = "Profiles and quotas"
    COST = "Cost"
    PERMISSIONS = "Permissions"
    ALARMS = "Alarms"


@dataclass(frozen=True, slots=True)
class _Subject:
    code: str
    section: Section
    name: str


class Topic(Enum):
    """The subject of a finding.

    Codes never change: scripts select findings by them, and each has a section of its own in
    `docs/reference/check-findings.md`.
    """

    CONFIGURATION = _Subject("configuration", Section.CONFIGURATION, "configuration")
    OPTION = _Subject("option", Section.CONFIGURATION, "option")
    COMMAND_LINE = _Subject("command-line", Section.CONFIGURATION, "command line")
    OPEN_FILES = _Subject("open-files", Section.MACHINE, "open files")
    OPENSSL = _Subject("openssl", Section.MACHINE, "openssl")
    CERTIFICATES = _Subject("identity-certificates", Section.MACHINE, "identity certificates")
    STORE = _Subject("store", Section.MACHINE, "store")
    HUB_ADDRESS = _Subject("hub-address", Section.MACHINE, "hub address")
    CREDENTIALS = _Subject("credentials", Section.ACCOUNT, "credentials")
    CLOCK = _Subject("clock", Section.ACCOUNT, "clock")
    INCOMPLETE = _Subject("incomplete", Section.ACCOUNT, "everything else in AWS")
    INSTANCE_PROFILE = _Subject("instance-profile", Section.ACCOUNT, "instance profile")
    KEY_PAIR = _Subject("key-pair", Section.ACCOUNT, "key pair")
    SPOT_ROLE = _Subject("spot-role", Section.ACCOUNT, "spot role")
    KMS_KEY = _Subject("kms-key", Section.ACCOUNT, "KMS key")
    ACCOUNT_PLAN = _Subject("account-plan", Section.ACCOUNT, "plan of the account")
    SUBNETS = _Subject("subnets", Section.NETWORK, "subnets")
    SECURITY_GROUPS = _Subject("security-groups", Section.NETWORK, "security groups")
    NOTEBOOK_PORT = _Subject("notebook-port", Section.NETWORK, "hub to notebooks")
    HUB_PORT = _Subject("hub-port", Section.NETWORK, "instances to hub")
    WAY_OUT = _Subject("way-out", Section.NETWORK, "way out")
    PUBLIC_ADDRESS = _Subject("public-address", Section.NETWORK, "public IPv4 addresses")
    IMAGE = _Subject("image", Section.IMAGE, "image")
    IMAGE_SYSTEM = _Subject("image-system", Section.IMAGE, "system and Python")
    IMAGE_DISK = _Subject("image-disk", Section.IMAGE, "root disk")
    IMAGE_DRIVER = _Subject("image-driver", Section.IMAGE, "NVIDIA driver")
    AGENT = _Subject("agent", Section.IMAGE, "agent")
    FILE_SYSTEM = _Subject("file-system", Section.FILES, "EFS file system")
    SHARED_HOMES = _Subject("shared-homes", Section.FILES, "homes on one file system")
    DATA_VOLUME = _Subject("data-volume", Section.FILES, "data volumes")
    BUCKET = _Subject("bucket", Section.FILES, "buckets")
    PROFILE = _Subject("profile", Section.PROFILES, "profiles")
    QUOTA = _Subject("quota", Section.PROFILES, "quotas")
    CAPACITY_RESERVATIONS = _Subject(
        "capacity-reservations", Section.PROFILES, "capacity reservations"
    )
    PRICES = _Subject("prices", Section.COST, "prices")
    IDLE_HOUR = _Subject("idle-hour", Section.COST, "an idle hour")
    WORST_MONTH = _Subject("worst-month", Section.COST, "a month at its worst")
    PERMISSION = _Subject("permission", Section.PERMISSIONS, "permissions")
    INTERRUPTION_QUEUE = _Subject("interruption-queue", Section.PERMISSIONS, "queue of spot events")
    REHEARSALS = _Subject("rehearsals", Section.PERMISSIONS, "rehearsals")
    ALARMS = _Subject("alarms", Section.ALARMS, "alarms")

    @property
    def code(self) -> str:
        """Such as `subnets`; lower-case words with hyphens."""
        return self.value.code

    @property
    def section(self) -> Section:
        """Where the report shows it."""
        return self.value.section

    @property
    def title(self) -> str:
        """The name of a finding that has none of its own."""
        return self.value.name
