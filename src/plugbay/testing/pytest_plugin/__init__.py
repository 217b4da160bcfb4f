"""The pytest plugin: fixtures ``kubelet``, ``open_kubelet`` and ``local_kubelet``, and the marker ``kubelet``.

Its entry point names this package. A run of pytest that uses no fixture of it imports this module and no more of
plugbay: each fixture imports what it needs when a test asks for it. Only tests that are async need a plugin for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from plugbay.testing.local.facade import Kubelet
    from plugbay.testing.local.kubelet import LocalKubelet


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", "kubelet(**options): options of the kubelets of this test; see plugbay.testing.KubeletOptions"
    )


@pytest.fixture
def open_kubelet(request: pytest.FixtureRequest) -> Iterator[Callable[..., Kubelet]]:
    """Open kubelets for this test: ``open_kubelet(numa_nodes=2)`` gives one. All are closed when the test is over."""
    from contextlib import ExitStack

    from plugbay.testing.local.facade import Kubelet

    marked = _marked(request)
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(Kubelet(**{**marked, **options}))


@pytest.fixture
def kubelet(open_kubelet: Callable[..., Kubelet]) -> Kubelet:
    """A kubelet of this test's own, fresh and empty; ``@pytest.mark.kubelet(...)`` gives it options."""
    return open_kubelet()


@pytest.fixture
def local_kubelet(request: pytest.FixtureRequest) -> Callable[..., AbstractAsyncContextManager[LocalKubelet]]:
    """For async tests: ``async with local_kubelet() as kubelet`` opens one in the test's own event loop and task."""
    from plugbay.testing.local.opening import local_kubelet

    marked = _marked(request)
    return lambda **options: local_kubelet(**{**marked, **options})


def _marked(request: pytest.FixtureRequest) -> Any:
    """The options of all markers of the test; the closest one decides."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("kubelet"))):
        if marker.args:
            pytest.fail(
                f"the marker kubelet takes options by name, such as numa_nodes=2; found {marker.args[0]!r}",
                pytrace=False,
            )
        options.update(marker.kwargs)
    return options
