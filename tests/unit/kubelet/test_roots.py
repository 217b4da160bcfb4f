from pathlib import Path

import pytest

from plugbay.errors import UsageError
from plugbay.kubelet.roots import private_root

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


def test_no_home_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="PLUGBAY_ROOT"):
        private_root({}, USER)
