from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from botocore import loaders
from botocore import session as botocore_session

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import Timeouts
from ec2spawner.embedded.iam.hub_policy import cluster_statements

from .embedded_ec2 import Embedded, running_embedded
from .scripted_ec2 import ScriptedEC2, scripted_ec2


@pytest.fixture(scope="package", autouse=True)
def service_models() -> Iterator[None]:
    """Have botocore parse its service models once, which takes longer than most of these tests:
    without this, each of them does so for its own client."""
    loader = loaders.Loader()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore_session, "create_loader", lambda search_path: loader)
        yield


@pytest.fixture(autouse=True)
def aws_environment(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The embedded EC2's credentials or none, and nothing from the developer's AWS files."""
    key_id = secret = "testing"
    if "embedded" in request.fixturenames:
        running: Embedded = request.getfixturevalue("embedded")
        key_id, secret = running.access_key_id, running.secret_access_key
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ec2() -> Iterator[ScriptedEC2]:
    with scripted_ec2() as script:
        yield script


@pytest.fixture
async def cloud(ec2: ScriptedEC2) -> AsyncIterator[EC2Cloud]:
    # Short, for the tests of what hangs; everything else answers at once.
    timeouts = Timeouts(connect=2, read=2, launch_read=1, total=20)
    opened = EC2Cloud("us-east-1", ec2.url, timeouts=timeouts)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """An embedded EC2 for a module's tests: none may leave something that another would see."""
    with running_embedded() as running:
        running.control("limits", token_buckets=False)
        yield running


@pytest.fixture
async def embedded_cloud(embedded: Embedded) -> AsyncIterator[EC2Cloud]:
    opened = EC2Cloud(embedded.region, embedded.endpoint)
    yield opened
    await opened.close()


@pytest.fixture
async def hub(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> str:
    """A hub that may have clusters, with its key."""
    name = f"hub-{uuid4()}"
    embedded.control("lag", seconds=0.0)
    account = embedded.client("sts").get_caller_identity()["Account"]
    statements = cluster_statements(embedded.region, account, name)
    for variable, value in embedded.key_of(name, *statements).items():
        monkeypatch.setenv(variable, value)
    return name


@pytest.fixture
async def real(embedded: Embedded, hub: str) -> AsyncIterator[EC2Cloud]:
    opened = EC2Cloud(embedded.region, embedded.endpoint)
    yield opened
    await opened.close()
