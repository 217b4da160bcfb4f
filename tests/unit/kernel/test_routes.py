from __future__ import annotations

from pathlib import Path

from plugbay.kernel.routes import parse_routes, parse_routes6, read_routes

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
ROUTES6 = """\
fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
ff000000000000000000000000000000 08 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000004 00000000 00000001     eth0
"""  # noqa: E501  # as the kernel prints it


def test_tables_are_read() -> None:
    assert [(str(each.network), each.link) for each in parse_routes(ROUTES)] == [
        *(("0.0.0.0/0", "eth0"), ("192.0.2.0/24", "eth0"))
    ]
    assert [str(each.network) for each in parse_routes6(ROUTES6)] == ["fd00::/64", "ff00::/8"]


def test_only_networks_of_the_host_are_kept(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(ROUTES)
    (tmp_path / "net/ipv6_route").write_text(ROUTES6)
    assert [str(each.network) for each in read_routes(proc_root=tmp_path)] == ["192.0.2.0/24", "fd00::/64"]


def test_kernel_without_ipv6_has_no_table(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/route").write_text(ROUTES)
    assert len(read_routes(proc_root=tmp_path)) == 1


def test_our_own_tables_can_be_read() -> None:
    for each in read_routes(proc_root=Path("/proc")):
        assert each.link
