"""Kubelets that have an engine already. A kubelet ends every pod of its engine that it does not know, in seconds."""

from __future__ import annotations

import logging
from pathlib import Path

from plugbay.errors import ContainerEngineUnusable
from plugbay.model.cri import SandboxState
from plugbay.runtimes.cri.config import NODE, POD_UID
from plugbay.wire.cri import CriClient

logger = logging.getLogger(__name__)


async def check_kubelets(client: CriClient, socket: Path, *, kubelet: Path | None, is_allowed: bool) -> None:
    """Make sure that no kubelet has the engine at ``socket``.

    A kubelet labels its sandboxes as we do, but for the label of our nodes. It may be just restarting, so its pods
    count even where it does not answer.

    Args:
        kubelet: the socket of a kubelet that answers on this machine and whose engine this may be; None if none does.
        is_allowed: warn only.

    Raises:
        ContainerEngineUnusable: a kubelet has it.
    """
    running = [each for each in await client.sandboxes({}) if each.state is SandboxState.READY]
    theirs = [each for each in running if POD_UID in each.labels and NODE not in each.labels]
    if theirs:
        sign = f"{len(theirs)} pod{'s' * (len(theirs) > 1)} of a kubelet run{'s' * (len(theirs) == 1)} on it"
    elif kubelet is not None:
        sign = f"a kubelet answers at {kubelet}, and this is the engine that kubelets use"
    else:
        return
    problem = f"{sign}; a kubelet ends every pod of its engine that it does not know"
    if not is_allowed:
        raise ContainerEngineUnusable(
            str(socket), f"{problem}; give the node an engine of its own, or --on-kubelet-engine use"
        )
    logger.warning("%s: %s; the pods of this node may be ended at any time", socket, problem)
