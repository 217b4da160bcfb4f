from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.kubelet import roots
from plugbay.kubelet.roots import default_root, private_root

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


@pytest.mark.parametrize(
    ("environ", "is_stock"),
    [
        pytest.param({}, True, id="said nothing"),
        pytest.param({"PLUGBAY_ROOT": ""}, True, id="said the empty word"),
        pytest.param({"PLUGBAY_ROOT": "/r"}, False, id="said"),
    ],
)
def test_a_stock_kubelet_goes_before_a_node_of_ours_unless_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], is_stock: bool
) -> None:
    monkeypatch.setattr(roots, "STOCK_ROOT", tmp_path)
    assert default_root(environ, ROOT) == private_root(environ, ROOT), "no kubelet has been here"
    (tmp_path / "device-plugins").mkdir()
    assert default_root(environ, ROOT) == (tmp_path if is_stock else Path("/r"))


def test_no_home_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="PLUGBAY_ROOT"):
        private_root({}, USER)
