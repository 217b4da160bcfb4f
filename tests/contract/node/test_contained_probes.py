"""Probes of real containers: a command runs inside, in what the container sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.rigs.oci import why_not

if TYPE_CHECKING:
    from tests.contract.conftest import Plugbay

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(why_not()), reason=why_not())]

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: probed}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: side
    image: busybox
    restartPolicy: Always
    command: [sh, -c, "touch /tmp/up; exec sleep 1000"]
    startupProbe: {exec: {command: [test, -e, /tmp/up]}, periodSeconds: 1}
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "touch /dev/shm/up; exec sleep 1000"]
    readinessProbe: {exec: {command: [test, -e, /dev/shm/up]}, periodSeconds: 1}
    livenessProbe: {exec: {command: [test, -e, /dev/shm/up]}, periodSeconds: 1, failureThreshold: 1}
"""


async def test_probes_run_in_the_container(plugbay: Plugbay) -> None:
    async with plugbay.node_up("--runtime", "oci"):
        assert (await plugbay("pod", "apply", "-f", "-", given=MANIFEST)).code == 0
        waited = await plugbay("pod", "wait", "--for=condition=Ready", "probed")
        assert waited.code == 0, (await plugbay("pod", "describe", "probed")).out
        await plugbay("pod", "exec", "-c", "main", "probed", "--", "rm", "/dev/shm/up")
        restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
        assert (await plugbay("pod", "wait", restarted, "probed")).code == 0
        assert (await plugbay("pod", "wait", "--for=condition=Ready", "probed")).code == 0
        told = (await plugbay("pod", "describe", "probed")).out
        assert "Container main failed liveness probe, will be restarted" in told
        await plugbay("pod", "delete", "probed", "--force")
