"""What the documentation and the sample configurations say is held to the code."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from jupyter_events import EventLogger
from jupyterhub.app import JupyterHub
from jupyterhub.auth import Authenticator
from jupyterhub.authenticators.shared import SharedPasswordAuthenticator
from jupyterhub.proxy import ConfigurableHTTPProxy
from jupyterhub.spawner import Spawner
from oauthenticator.generic import GenericOAuthenticator
from oauthenticator.oauth2 import OAuthenticator
from pydantic import BaseModel
from traitlets import HasTraits
from traitlets.config.loader import Config, PyFileConfigLoader

from ec2spawner import wire
from ec2spawner.config import (
    BucketConfig,
    DataVolumeConfig,
    DiscountConfig,
    HomeConfig,
    IdleConfig,
    JupyterHubOptions,
    Options,
    Profile,
    ineffective,
    validate_options,
)
from ec2spawner.core import tags
from ec2spawner.core.ledger.cost_rows import Dimension, Purpose, Resource
from ec2spawner.core.offers.quotas import quota_of
from ec2spawner.core.profiles.choices import OPTIONS
from ec2spawner.core.text import durations
from ec2spawner.data import INTERRUPTIONS_DATE, instance_types
from ec2spawner.embedded.demo.authenticator import OnePassword
from ec2spawner.embedded.demo.hub import DemoHub
from ec2spawner.hub.api import instances as instances_api
from ec2spawner.hub.api import runs as runs_api
from ec2spawner.hub.api import user as user_api
from ec2spawner.hub.api.agents.calls import handlers as agent_handlers
from ec2spawner.hub.api.agents.runs import handlers as agent_run_handlers
from ec2spawner.spawner import EC2Spawner
from ec2spawner.wire import Market
from tests.aws_actions import called_actions

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
CONFIGS = ROOT / "configs"

CLASSES: Mapping[str, type[HasTraits]] = {
    "Authenticator": Authenticator,
    "ConfigurableHTTPProxy": ConfigurableHTTPProxy,
    "DemoHub": DemoHub,
    "EC2Spawner": EC2Spawner,
    "EventLogger": EventLogger,
    "GenericOAuthenticator": GenericOAuthenticator,
    "JupyterHub": JupyterHub,
    "OAuthenticator": OAuthenticator,
    "OnePassword": OnePassword,
    "SharedPasswordAuthenticator": SharedPasswordAuthenticator,
    "Spawner": Spawner,
}


GENERATED = {DOCS / "reference" / f"{name}.md" for name in ("configuration", "commands")}
"""There or not, as the documentation was built or not: no test may depend on them."""


TOP_LEVEL = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "RELEASING", "SECURITY")]


def pages() -> list[Path]:
    own = [p for p in DOCS.rglob("*.md") if "_build" not in p.parts and p not in GENERATED]
    return sorted([*TOP_LEVEL, CONFIGS / "README.md", *own])


def written(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def load_config(path: Path) -> Config:
    config: Config = PyFileConfigLoader(path.name, path=str(path.parent)).load_config()
    return config


def assert_works(config: Config, *, is_whole: bool = True) -> Options:
    """A hub would take this configuration: every name is known, every value valid. A whole one has
    no option without effect."""
    for class_name, section in config.items():
        unknown = [name for name in section if not CLASSES[class_name].class_traits().get(name)]
        assert not unknown, f"c.{class_name} has no {unknown}"
    hub = config.get("JupyterHub", {})
    assert hub["spawner_class"] == "ec2"
    options = validate_options(
        config["EC2Spawner"], cleanup_servers=hub["cleanup_servers"], environ={}
    )
    now = datetime(2026, 12, 1, tzinfo=UTC)
    assert not is_whole or ineffective(options, JupyterHubOptions(), now) == ()
    return options


# --- configurations to copy ------------------------------------------------------------------


def test_the_configuration_for_a_small_team_works() -> None:
    assert_works(load_config(CONFIGS / "small-team" / "jupyterhub_config.py"))


def test_the_configuration_with_shared_data_works() -> None:
    options = assert_works(load_config(CONFIGS / "shared-data" / "jupyterhub_config.py"))
    assert options.buckets


def test_the_configuration_for_a_class_works() -> None:
    assert_works(load_config(CONFIGS / "class" / "jupyterhub_config.py"))


def test_the_configuration_for_an_institute_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_TOKEN", "0" * 32)
    options = assert_works(load_config(CONFIGS / "large" / "jupyterhub_config.py"))
    assert options.store_url.startswith("postgresql://")


def test_the_sums_for_a_class_are_right() -> None:
    """Quotas in vCPUs, and the cost at the list prices that ship with the package."""
    hub = load_config(CONFIGS / "class" / "jupyterhub_config.py")
    students = len(hub["Authenticator"]["allowed_users"])
    [name] = hub["EC2Spawner"]["profile_list"][0]["instance_types"]
    kind = instance_types()[name]
    page = written(DOCS / "class-of-30.md")
    assert f"| {students} × {kind.vcpus} = **{students * kind.vcpus}** |" in page
    for market in Market:
        quota = quota_of(market, name)
        assert quota
        assert f"| {quota.name} | {quota.code} | {(students + 2) * kind.vcpus} |" in page
    price = kind.on_demand_usd_per_hour
    assert price is not None
    for hours in (1, 4, 12 * 4):
        assert f" {students * hours * price:.2f} |" in page
    assert f" {price} |" in page


def test_the_regions_spot_market_is_as_the_package_knows_it() -> None:
    page = written(DOCS / "how-to/region-and-gpu.md")
    source = f"AWS Spot Instance Advisor of {INTERRUPTIONS_DATE}"
    assert source in page.replace("\n", " ")
    rows = re.findall(r"^\| ([a-z]{2}-[a-z]+-\d) \|.*$", page, flags=re.M)
    assert len(rows) > 5
    for region in rows:
        known = [
            (kind.spot_saving_percent, kind.interruption_band)
            for kind in instance_types(region).values()
            if kind.gpu and kind.spot_saving_percent is not None
        ]
        saved = round(median(saving for saving, _ in known))
        often, rarely = (sum(each == band for _, each in known) for band in (4, 0))
        assert f"| {region} | {len(known)} | {saved} % | {often} | {rarely} |" in page


def test_the_demos_configuration_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = tmp_path / "embedded.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    demo = {
        "region": "us-east-1",
        "subnets": ["subnet-0a1b2c3d", "subnet-4e5f6a7b"],
        "security_group": "sg-0a1b2c3d",
        "image_id": "ami-0a1b2c3d",
        "ec2_endpoint": "http://127.0.0.1:5000",
        "certificate": str(certificate),
        "data_dir": str(tmp_path),
        "hub_url": "http://127.0.0.1:8000",
        "hub_api_bind_url": "http://127.0.0.1:8081",
        "proxy_api_url": "http://127.0.0.1:8001",
        "admin_token": "0" * 32,
        "password": "long enough",
        "allowed_hosts": [],
    }
    monkeypatch.setenv("EC2SPAWNER_DEMO", json.dumps(demo))
    assert_works(load_config(CONFIGS / "demo" / "jupyterhub_config.py"))


def snippets() -> Iterator[tuple[str, str]]:
    """Every piece of a jupyterhub_config.py on any page, with the page it stands on."""
    for page in pages():
        blocks = re.findall(r"^```python\n(.*?)^```", written(page), flags=re.M | re.S)
        for number, block in enumerate(blocks, 1):
            if re.search(r"^c\.", block, flags=re.M):
                yield f"{name_of(page)} {number}", block


@pytest.mark.parametrize("snippet", [pytest.param(code, id=where) for where, code in snippets()])
def test_every_configuration_on_a_page_works(
    snippet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole one as it is; a piece within the configuration for a small team."""
    whole = "get_config()" in snippet
    around = "" if whole else written(CONFIGS / "small-team" / "jupyterhub_config.py")
    if "ec2.json" in snippet:
        tmp_path = prepared_laptop(tmp_path, monkeypatch)
    monkeypatch.setenv("ALARM_MAIL", "mailtos://ops:secret@mail.example.org?to=ops@example.org")
    monkeypatch.setenv("ALARM_CHAT", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ")
    monkeypatch.setenv("LOAD_TEST_TOKEN", "0" * 32)
    file = tmp_path / "jupyterhub_config.py"
    file.write_text(f"{around}\n{snippet}", encoding="utf-8")
    assert_works(load_config(file), is_whole=whole)


def prepared_laptop(clone: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the page on the embedded EC2 has its configuration, and what is there."""
    (clone / "configs").symlink_to(CONFIGS)
    folder = clone / "laptop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    certificate = folder / "certificate.pem"
    certificate.write_text("-----BEGIN CERTIFICATE-----\n")
    account = {
        "ec2_endpoint": "http://127.0.0.1:5000",
        "certificate": str(certificate),
        "region": "us-east-1",
        "subnets": ["subnet-0a1b2c3d", "subnet-4e5f6a7b"],
        "security_group": "sg-0a1b2c3d",
        "image_id": "ami-0a1b2c3d",
        "aws_access_key_id": "AKIA0",
        "aws_secret_access_key": "0" * 40,
    }
    Path("ec2.json").write_text(json.dumps(account))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "STUDENT_PASSWORD"):
        monkeypatch.setenv(name, "to be replaced")
    monkeypatch.setenv("TEACHER_PASSWORD", "0" * 32)
    return folder


# --- the configuration reference -------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> str:
    sys.path.insert(0, str(DOCS))
    try:
        import configuration_reference
    finally:
        sys.path.remove(str(DOCS))
    page: str = configuration_reference.render()
    assert page == configuration_reference.render()
    return page


@pytest.mark.parametrize(
    "model",
    [
        Options,
        Profile,
        HomeConfig,
        DataVolumeConfig,
        BucketConfig,
        IdleConfig,
        DiscountConfig,
    ],
)
def test_the_reference_has_every_option(model: type[BaseModel], reference: str) -> None:
    for name, field in model.model_fields.items():
        heading = f"### `c.EC2Spawner.{name}`" if model is Options else f"### `{name}`"
        assert heading in reference
        assert field.description
        assert f"\n\n{field.description}\n\n- **Type:** " in reference


def test_the_reference_shows_defaults_as_they_are_written(reference: str) -> None:
    assert '| [`boot_timeout`](#option-boot-timeout) | duration | `"10m"` |' in reference
    assert "| [`subnets`](#option-subnets) | list of texts | none; required |" in reference
    assert "| [`image`](#option-image) | text or dict, see [its keys](#image) | `" in reference
    assert "| `c.EC2Spawner.start_timeout` | `900` | `60` |" in reference


def test_every_option_is_a_trait_of_the_spawner() -> None:
    assert set(Options.model_fields) <= set(EC2Spawner.class_trait_names(config=True))


DEFAULT_IN_TEXT = re.compile(r"`(\w+)`(?:, | \()(\d+) (second|minute|hour|day)s?\b")
SECONDS_IN = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}


def test_defaults_that_pages_name_are_those_of_the_options() -> None:
    """Pages write "`boot_timeout`, 10 minutes" or "`boot_timeout` (10 minutes)"."""
    defaults = {**Options.model_fields, **IdleConfig.model_fields}
    named = {
        (name_of(page), name, int(number) * SECONDS_IN[unit])
        for page in pages()
        for name, number, unit in DEFAULT_IN_TEXT.findall(written(page))
        if name in defaults
    }
    assert len(named) > 5
    for page, name, seconds in sorted(named):
        assert seconds == durations.seconds(defaults[name].default), f"{page}: `{name}`"


# --- the reference of the commands -----------------------------------------------------------


def test_the_reference_has_every_command_and_every_option() -> None:
    sys.path.insert(0, str(DOCS))
    try:
        import command_reference
    finally:
        sys.path.remove(str(DOCS))
    page = command_reference.render()
    found = list(command_reference.commands())
    assert {name for name, _, _ in found} == set(command_reference.SEE)
    for name, _, command in found:
        section = page.partition(f"## `ec2spawner {name}`\n")[2].partition("\n## ")[0]
        for option in command_reference.options(command):
            assert option.help
            assert all(each in section for each in option.option_strings)


# --- the HTTP reference ----------------------------------------------------------------------

MESSAGES = (
    wire.Claim,
    wire.ClaimWait,
    wire.LeaseGrant,
    wire.HomeMount,
    wire.DataMount,
    wire.BucketMount,
    wire.AgentEvent,
    wire.Heartbeat,
    wire.Telemetry,
    wire.GpuSample,
    wire.HeartbeatResponse,
    wire.Cost,
    wire.IdlePolicy,
    wire.WorkingHours,
    wire.IdleResponse,
    wire.Stop,
    wire.ExtendResponse,
    wire.ServerEnd,
    wire.NotebookStatus,
    wire.Idleness,
    wire.SavedSession,
    wire.SavedKernel,
    wire.SavedVariable,
    wire.LostVariable,
    wire.SleepOrder,
    wire.SleepProgress,
    wire.SessionSaved,
    wire.Wake,
    wire.WokenKernel,
    wire.RunSubmission,
    wire.RunSummary,
    wire.RunsRequest,
    wire.RunsAnswer,
    wire.RunReport,
    wire.RunWork,
    instances_api.ServerModel,
    user_api.Profiles,
    user_api.ProfileModel,
    user_api.UserOptions,
    user_api.OfferModel,
    user_api.SoldOut,
    user_api.History,
    user_api.ValueModel,
)


@pytest.mark.parametrize("message", MESSAGES)
def test_the_http_reference_names_every_field(message: type[BaseModel]) -> None:
    page = written(DOCS / "reference" / "http.md")
    missing = [name for name in message.model_fields if f"`{name}`" not in page]
    assert not missing


def test_the_http_reference_names_every_value_of_the_costs() -> None:
    page = written(DOCS / "reference" / "http.md")
    section = page.partition("### `GET usage/costs`")[2].partition("###")[0]
    missing = [x for x in (*Dimension, *Resource, *Purpose) if f"`{x}`" not in section]
    assert not missing


def test_the_http_reference_has_every_option_of_a_start() -> None:
    page = written(DOCS / "reference" / "http.md")
    section = page.partition("### What users may send")[2].partition("###")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", section, flags=re.M)) == sorted(OPTIONS)


def test_the_http_reference_has_every_call_and_the_protocol() -> None:
    page = written(DOCS / "reference" / "http.md")
    for pattern, _ in (*agent_handlers, *agent_run_handlers):
        call = re.sub(r"\(.*\)", "{id}", pattern).removeprefix("/api/ec2/")
        assert f"`POST {call}`" in page
    for pattern, handler in user_api.handlers:
        call = re.sub(r"\([^)]*\)", "{name}", pattern).removeprefix("/api/ec2/")
        assert f"`{'GET' if 'get' in vars(handler) else 'POST'} {call}`" in page
    for pattern, handler in runs_api.handlers:
        call = re.sub(r"\([^)]*\)", "{number}", pattern).removeprefix("/api/ec2/")
        methods = {"get", "post", "delete"} & set(vars(handler))
        assert all(f"`{method.upper()} {call}`" in page for method in methods)
    assert f"The number now is **{wire.PROTOCOL}**" in " ".join(page.split())


def test_the_http_reference_has_every_control_call() -> None:
    from ec2spawner.embedded.control.control import ROUTES

    page = written(DOCS / "reference" / "http.md")
    for pattern, _ in ROUTES:
        assert pattern.replace("([^/]+)", "{instance_id}") in page


# --- paths and targets that pages name -------------------------------------------------------


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_target_of_make_that_a_page_names_exists(page: Path) -> None:
    makefile = written(ROOT / "Makefile")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.M))
    code = "\n".join(re.findall(r"^```.*?^```|`[^`\n]+`", written(page), flags=re.M | re.S))
    named = set(re.findall(r"(?:^|[`$\s])make ([a-z]+)", code))
    assert named <= targets


@pytest.mark.parametrize("page", [*TOP_LEVEL, CONFIGS / "README.md"], ids=name_of)
def test_every_file_that_a_readme_links_or_names_exists(page: Path) -> None:
    text = written(page)
    linked = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert not [path for path in linked if not (page.parent / path).exists()]
    named = re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|json|md|png))`", text)
    from_root_or_here = (ROOT, page.parent)
    assert not [
        path for path in named if not any((base / path).exists() for base in from_root_or_here)
    ]


# --- the IAM policy --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def statements() -> list[dict[str, Any]]:
    policy = json.loads(written(CONFIGS / "iam-policy.json"))
    assert policy["Version"] == "2012-10-17"
    found: list[dict[str, Any]] = policy["Statement"]
    return found


def actions_of(statement: Mapping[str, Any]) -> set[str]:
    actions = statement["Action"]
    return {actions} if isinstance(actions, str) else set(actions)


OPTIONAL_PERMISSIONS = frozenset({"cloudwatch:PutMetricData"})
"""Of statements that `configs/README.md` has for those who turn the feature on."""


def optional_statements() -> list[dict[str, Any]]:
    blocks = re.findall(r"```json\n(.*?)```", written(CONFIGS / "README.md"), re.DOTALL)
    return [json.loads(block) for block in blocks]


def test_the_readme_has_the_statements_of_features_that_are_off() -> None:
    found = [actions_of(statement) for statement in optional_statements()]
    assert set().union(*found) >= OPTIONAL_PERMISSIONS


def test_the_policy_allows_exactly_the_calls_made(
    statements: list[dict[str, Any]],
) -> None:
    allowed = set().union(*map(actions_of, statements))
    called = {action.permission for action in called_actions()} - OPTIONAL_PERMISSIONS
    assert len(called) > 10
    # CreateFleet runs instances on the caller's behalf. Nobody needs a permission to ask who
    # they are. Alarms to SNS are opt-in, with a statement of their own.
    [alarms] = re.findall(r"```json\n(.*?)```", written(DOCS / "how-to" / "alarms.md"), flags=re.S)
    # Reports run with the credentials of whoever asks for them.
    of_reports = re.findall(r"`((?:ce|s3):\w+)`", written(DOCS / "how-to" / "report.md"))
    apart = {"sts:GetCallerIdentity", *actions_of(json.loads(alarms)), *of_reports}
    # Those of interruptions are opt-in as well, in a policy that is used beside this one.
    second = json.loads((CONFIGS / "interruptions-policy.json").read_text(encoding="utf-8"))
    # FIS asks for two of them beside those of the call.
    not_called = {"fis:TagResource", "iam:CreateServiceLinkedRole", "iam:PassRole"}
    apart |= set().union(*map(actions_of, second["Statement"])) - not_called
    assert apart <= called
    # So are those of clusters, but for what both need.
    third = json.loads((CONFIGS / "clusters-policy.json").read_text(encoding="utf-8"))
    of_clusters = set().union(*map(actions_of, third["Statement"]))
    assert of_clusters <= called
    apart |= of_clusters - allowed
    assert allowed == (called | {"ec2:RunInstances"}) - apart


def test_the_policy_lets_the_hub_set_its_later_tags(statements: list[dict[str, Any]]) -> None:
    later = {tags.LEASE, tags.USER, tags.NAME, tags.PAYER, tags.PROFILE, tags.STORE, tags.SERVER}
    keys = [
        set(statement["Condition"]["ForAllValues:StringEquals"]["aws:TagKeys"])
        for statement in statements
        if "ForAllValues:StringEquals" in statement.get("Condition", {})
    ]
    assert keys == [later]


def test_where_the_simulation_is_kinder_something_else_tests_it_or_the_table_says_why_not() -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## How the embedded EC2 differs from EC2")[2].partition("\n### ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("| ")
    ]
    assert len(rows) > 20
    for what, _, _, errs, otherwise in rows:
        assert "kinder" not in errs or otherwise, what
