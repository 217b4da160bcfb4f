from __future__ import annotations

from pathlib import Path

from plugbay.plugins.nvidia.cdi.mount_lists import MOUNT_LISTS, MountLists, mount_lists, read_lists


def test_scenario_118_mount_lists_are_below_the_driver_s_root_or_the_machine_s(tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    assert mount_lists(tmp_path, driver) == ()
    (tmp_path / MOUNT_LISTS).mkdir(parents=True)
    assert [path.parent for path in mount_lists(tmp_path, driver)] == [tmp_path / MOUNT_LISTS] * 3
    (driver / MOUNT_LISTS).mkdir(parents=True)
    assert mount_lists(tmp_path, driver) == tuple(
        driver / MOUNT_LISTS / name for name in ("devices.csv", "drivers.csv", "l4t.csv")
    )


def test_lines_that_are_no_entries_and_lists_that_are_missing_count_for_nothing(tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    first.write_bytes(b"dev, /dev/a\r\n# dev, /dev/b\n\nlib,/lib/c,d\n sym ,/l\nDEV, /dev/e\ndir,\n\xff, /x\n")
    second.write_text("dir, /d\ndev, /dev/f*")
    assert read_lists([first, tmp_path / "missing.csv", second, tmp_path]) == MountLists(
        ("/dev/a", "/dev/f*"), ("/d",), ("/lib/c,d",), ("/l",)
    )
