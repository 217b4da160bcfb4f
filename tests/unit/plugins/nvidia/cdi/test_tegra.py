from __future__ import annotations

from pathlib import Path

from plugbay.plugins.nvidia.cdi.tegra import mount_lists

DIRECTORY = "etc/nvidia-container-runtime/host-files-for-container.d"


def test_scenario_118_mount_lists_are_below_the_driver_s_root_or_the_machine_s(tmp_path: Path) -> None:
    driver = tmp_path / "driver"
    assert mount_lists(tmp_path, driver) == ()
    (tmp_path / DIRECTORY).mkdir(parents=True)
    assert [path.parent for path in mount_lists(tmp_path, driver)] == [tmp_path / DIRECTORY] * 3
    (driver / DIRECTORY).mkdir(parents=True)
    assert mount_lists(tmp_path, driver) == tuple(
        driver / DIRECTORY / name for name in ("devices.csv", "drivers.csv", "l4t.csv")
    )
