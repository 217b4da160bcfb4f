"""Ready clients of a node's API, of the libraries that Python has for Kubernetes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plugbay.errors import UsageError

if TYPE_CHECKING:
    import kr8s.asyncio
    import kubernetes.client
    import kubernetes_asyncio.client
    import lightkube


class ApiClients:
    """Makes clients; each library is imported when a client of it is asked for, and has to be installed.

    A client that blocks has to be used outside the event loop of an async test, such as by ``asyncio.to_thread``.

    Args:
        kubeconfig: the node's.

    Raises:
        UsageError: of every method: the library is not installed.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = str(kubeconfig)

    def kubernetes(self) -> kubernetes.client.ApiClient:
        """A client of the library ``kubernetes``, for its APIs: ``CoreV1Api(kubelet.clients.kubernetes())``."""
        config = _library("kubernetes.config", "kubernetes")
        client: kubernetes.client.ApiClient = config.new_client_from_config(self._kubeconfig)
        return client

    def kubernetes_asyncio(self) -> AbstractAsyncContextManager[kubernetes_asyncio.client.ApiClient]:
        """A client of the library ``kubernetes-asyncio``, in ``async with``."""
        config = _library("kubernetes_asyncio.config", "kubernetes-asyncio")

        @asynccontextmanager
        async def opened() -> AsyncIterator[kubernetes_asyncio.client.ApiClient]:
            async with await config.new_client_from_config(self._kubeconfig) as client:
                yield client

        return opened()

    def lightkube(self) -> lightkube.Client:
        """A client of the library ``lightkube``."""
        library = _library("lightkube", "lightkube")
        client: lightkube.Client = library.Client(library.KubeConfig.from_file(self._kubeconfig))
        return client

    async def kr8s(self) -> kr8s.asyncio.Api:
        """A client of the library ``kr8s``, for ``async`` code."""
        library = _library("kr8s.asyncio", "kr8s")
        client: kr8s.asyncio.Api = await library.api(kubeconfig=self._kubeconfig)
        return client


def _library(module: str, name: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise UsageError(f"the library {name} is not installed: pip install {name}") from None
