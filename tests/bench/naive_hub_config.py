"""The same hub with the naive spawner."""

import json
import os
from pathlib import Path

import boto3

from tests.bench.naive_spawner import NaiveSpawner

load_subconfig(str(Path(__file__).with_name("hub_config.py")))  # noqa: F821 - JupyterHub's
c = get_config()  # noqa: F821
demo = json.loads(os.environ["EC2SPAWNER_DEMO"])

c.JupyterHub.spawner_class = NaiveSpawner
c.NaiveSpawner.image = demo["image_id"]
c.NaiveSpawner.subnet = demo["subnets"][0]
NaiveSpawner.client = boto3.client("ec2", demo["region"], endpoint_url=demo["ec2_endpoint"])
