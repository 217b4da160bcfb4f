"""Chooses the runtime of a node, and opens it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from plugbay.errors import EngineUnusable
from plugbay.node.config import NodeConfig
from plugbay.node.runtimes.chosen import ChosenRuntime, holds_anything, oci_containers
from plugbay.ops.clock import Clock
from plugbay.pods.node import Machine

logger = logging.getLogger(__name__)


def with_default_runtime(config: NodeConfig, *, environ: Mapping[str, str]) -> NodeConfig:
    """Replace the oci runtime in ``config`` by the runtime of the node's pods, or else by the best that works here.

    Takes some 0.1 s where an engine has to be tried. Says in the log why containers are plain processes.
    """
    if holds_anything(config.containers):
        logger.info(
            "containers are plain processes, like those of the node's pods; --runtime oci needs a node without pods"
        )
        return replace(config, oci=None)
    if holds_anything(oci_containers(config)):
        return config
    from plugbay.node.runtimes.oci import find_engine

    try:
        find_engine(config, None, environ=environ)
    except EngineUnusable as error:
        logger.warning("containers are plain processes, without mounts or isolation of their own: %s", error)
        return replace(config, oci=None)
    return config


@asynccontextmanager
async def open_runtime(
    config: NodeConfig, machine: Machine, *, environ: Mapping[str, str], clock: Clock
) -> AsyncIterator[ChosenRuntime]:
    """The runtime of ``config`` while the block runs; finding an engine takes some 0.1 s.

    Raises:
        EngineUnusable: no OCI engine works here.
        ContainerEngineUnusable: no engine answers.
        PathUnusable: the root file system for containers is not a directory, or the node's pods have another runtime.
    """
    if config.cri is not None:
        from plugbay.node.runtimes.cri import open_cri

        async with open_cri(config, config.cri, machine, clock=clock) as chosen:
            yield chosen
    else:
        yield await asyncio.to_thread(_open_local, config, environ=environ, clock=clock)


def _open_local(config: NodeConfig, *, environ: Mapping[str, str], clock: Clock) -> ChosenRuntime:
    if config.oci is None:
        from plugbay.node.runtimes.process import open_process

        return open_process(config, environ=environ, clock=clock)
    from plugbay.node.runtimes.oci import open_oci

    return open_oci(config, config.oci, environ=environ, clock=clock)
