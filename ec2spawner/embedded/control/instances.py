"""Control calls about instances: what runs and ran, what passes between them, spot notices."""

from __future__ import annotations

import json

from tornado.web import HTTPError

from ..api.protocol import EC2Error
from ..instances.lifecycle import Lifecycle
from .handler import ControlHandler
from .requests import InterruptRequest, ScheduledEventRequest


class InstancesHandler(ControlHandler):
    """`GET /embedded/instances`: instances that run, with their processes."""

    async def get(self) -> None:
        """Answer with every instance that is listed; times and processes are as of now."""
        running = await self.controls.runtime.running()
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps(
                [
                    {
                        "instance_id": life.instance_id,
                        "address": life.instance.address,
                        "state": life.state,
                        "market": life.offer.market,
                        "instance_type": life.offer.instance_type,
                        "zone": life.offer.zone,
                        "metadata_endpoint": self.controls.runtime.metadata_endpoint(
                            life.instance_id
                        ),
                        "processes": running.get(life.instance_id, []),
                    }
                    for life in self.controls.lifecycles.all()
                ]
            )
        )


class UptimesHandler(ControlHandler):
    """`GET /embedded/uptimes`: how long which instances have run."""

    def get(self) -> None:
        """Answer with each uptime, also of instances that are not listed any more."""
        self.set_header("Content-Type", "application/json")
        self.finish(
            json.dumps(
                [
                    {
                        "instance_id": each.instance_id,
                        "market": each.offer.market,
                        "instance_type": each.offer.instance_type,
                        "zone": each.offer.zone,
                        "since": each.since.isoformat(),
                        "until": each.until.isoformat() if each.until else None,
                        "reason": each.reason,
                    }
                    for each in self.controls.lifecycles.uptimes
                ]
            )
        )


class DetachedWhileMountedHandler(ControlHandler):
    """`GET /embedded/detached-while-mounted`: volumes that lost what was not flushed."""

    def get(self) -> None:
        """Answer with each such detachment, oldest first."""
        found = self.controls.runtime.detached_while_mounted
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps([{"instance_id": i, "volume_id": v} for i, v in found]))


class ReachableHandler(ControlHandler):
    """`GET /embedded/reachable/{source}/{target}`: what passes between two instances."""

    async def get(self, source: str, target: str) -> None:
        """Answer with TCP ports of the target; 404 for an unknown instance."""
        try:
            found = await self.controls.lifecycles.ports_between(source, target)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        ports, possible = found
        self.finish({"ports": ports, "possible_ports": possible})


class SpotHandler(ControlHandler):
    """Base of calls about a spot instance."""

    def spot_instance(self, instance_id: str) -> Lifecycle:
        """An instance that EC2 could reclaim; 404 for an unknown instance, 409 for any other."""
        try:
            life = self.controls.lifecycles.get(instance_id)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        if life.offer.market != "spot":
            raise HTTPError(409, "%s", f"{instance_id} is on-demand: only spot is interrupted")
        if life.state not in ("pending", "running"):
            raise HTTPError(409, "%s", f"{instance_id} is {life.state}")
        return life


class InterruptHandler(SpotHandler):
    """`POST /embedded/interrupt/{instance_id}`: a spot notice; 404 for an unknown instance."""

    def post(self, instance_id: str) -> None:
        """Give notice; 409 unless it is a spot instance that is pending or running."""
        body = self.body(InterruptRequest)
        life = self.spot_instance(instance_id)
        self.controls.lifecycles.interrupt(life, body.notice_seconds)
        self.finish({"ok": True})


class ScheduledEventHandler(ControlHandler):
    """`POST /embedded/scheduled-event/{instance_id}`: 404 for an unknown instance."""

    def post(self, instance_id: str) -> None:
        """Announce an event, or withdraw what was announced; 409 unless the instance runs."""
        body = self.body(ScheduledEventRequest)
        try:
            life = self.controls.lifecycles.get(instance_id)
        except EC2Error as error:
            raise HTTPError(404, "%s", error.message) from None
        if life.state != "running":
            raise HTTPError(409, "%s", f"{instance_id} is {life.state}")
        events = self.controls.scheduled_events
        if body.code is None:
            events.cancel(life)
            self.finish({"ok": True})
        else:
            event = events.schedule(life, body.code, body.in_seconds, body.lasts_seconds)
            self.finish({"event": event.event_id})


class RebalanceHandler(SpotHandler):
    """`POST /embedded/rebalance/{instance_id}`: a recommendation; 404 for an unknown instance."""

    def post(self, instance_id: str) -> None:
        """Recommend to leave it; 409 unless it is a spot instance that is pending or running."""
        self.controls.lifecycles.recommend_rebalance(self.spot_instance(instance_id))
        self.finish({"ok": True})
