import socket
from pathlib import Path

from plugbay.model.ids import ResourceName
from plugbay.sdk.sockets import new_socket_path, remove_leftovers
from plugbay.wire.sockets import check_socket_path

NAME = ResourceName("example.com/gopher")


def test_every_incarnation_has_a_name_of_its_own() -> None:
    paths = {new_socket_path(Path("/d"), NAME) for _ in range(100)}
    assert len(paths) == 100
    assert all(path.name.startswith("example.com_gopher-") for path in paths)


def test_long_name_is_hashed_so_that_it_can_be_bound() -> None:
    long_name = ResourceName("x" * 200 + ".example/" + "y" * 60)
    directory = Path("/var/lib/kubelet/device-plugins")
    assert check_socket_path(new_socket_path(directory, long_name)).parent == directory


def test_leftover_under_a_hashed_name_is_removed_and_one_in_use_is_not(sockets: Path) -> None:
    long_name = ResourceName("x" * 60 + ".example/" + "y" * 50)
    dead, alive = new_socket_path(sockets, long_name), new_socket_path(sockets, long_name)
    assert "x" not in dead.name
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.bind(str(dead))
        other.bind(str(alive))
        other.listen()
        one.close()
        remove_leftovers(sockets, long_name)
        assert [path for path in (dead, alive) if path.exists()] == [alive]
