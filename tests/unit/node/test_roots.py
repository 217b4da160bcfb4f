from collections.abc import Callable
from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.node import roots
from plugbay.node.roots import kubelet_root, private_root

USER, ROOT = 1000, 0


@pytest.mark.parametrize(
    ("environ", "uid", "root"),
    [
        pytest.param({"PLUGBAY_ROOT": "/r", "HOME": "/h"}, ROOT, "/r", id="said"),
        pytest.param({"PLUGBAY_ROOT": "", "HOME": "/h"}, USER, "/h/.local/state/plugbay", id="said nothing"),
        pytest.param({"HOME": "/root"}, ROOT, "/var/lib/plugbay", id="root"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "/s"}, USER, "/s/plugbay", id="state home"),
        pytest.param(
            {"HOME": "/h", "XDG_STATE_HOME": "s"}, USER, "/h/.local/state/plugbay", id="relative state home is ignored"
        ),
        pytest.param({"HOME": "/h"}, USER, "/h/.local/state/plugbay", id="home"),
    ],
)
def test_private_root_is_where_the_user_keeps_state(environ: dict[str, str], uid: int, root: str) -> None:
    assert private_root(environ, uid) == Path(root)


@pytest.fixture
def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a stock kubelet would have its root; it has no directory there yet."""
    monkeypatch.setattr(roots, "STOCK_ROOT", tmp_path)
    return tmp_path


def is_up(_: Path) -> bool:
    return True


def is_down(_: Path) -> bool:
    return False


@pytest.mark.parametrize("is_node_up", [is_up, is_down])
def test_a_node_of_ours_is_meant_where_no_kubelet_has_a_directory(
    stock: Path, is_node_up: Callable[[Path], bool]
) -> None:
    assert kubelet_root({}, ROOT, is_node_up=is_node_up).path == private_root({}, ROOT)


@pytest.mark.parametrize("environ", [{}, {"PLUGBAY_ROOT": ""}, {"HOME": "/h"}])
def test_a_stock_kubelet_is_meant_where_it_has_its_directory(stock: Path, environ: dict[str, str]) -> None:
    (stock / "device-plugins").mkdir()
    for uid in (ROOT, USER):
        assert kubelet_root(environ, uid, is_node_up=is_down).path == stock


def test_nothing_is_guessed_where_both_may_be_meant(stock: Path) -> None:
    (stock / "device-plugins").mkdir()
    asked: list[Path] = []

    def is_node_up(root: Path) -> bool:
        asked.append(root)
        return True

    with pytest.raises(UsageError) as refused:
        kubelet_root({"HOME": "/h"}, USER, is_node_up=is_node_up)
    assert asked == [Path("/h/.local/state/plugbay")]
    assert str(refused.value) == (
        "there are two kubelets on this machine: the node of `plugbay node up` at /h/.local/state/plugbay, and one "
        f"whose directory is {stock}; choose with --node or with --root {stock}"
    )


@pytest.mark.parametrize("is_node_up", [is_up, is_down])
def test_the_variable_goes_before_both(stock: Path, is_node_up: Callable[[Path], bool]) -> None:
    (stock / "device-plugins").mkdir()
    found = kubelet_root({"PLUGBAY_ROOT": "/r"}, ROOT, is_node_up=is_node_up)
    assert (found.path, found.why) == (Path("/r"), "$PLUGBAY_ROOT says so")


def test_no_home_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="PLUGBAY_ROOT"):
        private_root({}, USER)
