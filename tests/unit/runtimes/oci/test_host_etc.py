"""The copy of the host's ``/etc``: what is in it, and that it follows."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from plugbay.runtimes.oci.host_etc import HostEtc


@pytest.fixture
def host(tmp_path: Path) -> Path:
    host = tmp_path / "host"
    (host / "ssl/private").mkdir(parents=True)
    (host / "ssl/certs").mkdir()
    for name in ("passwd", "shadow", "ssl/private/key", "ssl/certs/ca.crt", "nsswitch.conf"):
        (host / name).write_text(name)
        (host / name).chmod(0o644)
    return host


def content(directory: Path) -> dict[str, str]:
    return {
        str(each.relative_to(directory)): f"-> {os.readlink(each)}" if each.is_symlink() else each.read_text()
        for each in directory.rglob("*")
        if each.is_symlink() or each.is_file()
    }


POD_FILES = {"hosts": "", "hostname": "", "resolv.conf": ""}


def test_the_choice_is_by_name(host: Path, tmp_path: Path) -> None:
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    names = ("passwd", "nsswitch.conf", "ssl/certs/ca.crt")
    assert content(etc.directory) == {**{name: name for name in names}, **POD_FILES}


def test_what_not_every_user_may_read_stays_out(host: Path, tmp_path: Path) -> None:
    (host / "passwd").chmod(0o640)
    (host / "ssl/certs/key.pem").write_text("secret")
    (host / "ssl/certs/key.pem").chmod(0o600)
    (host / "xdg").mkdir(mode=0o700)
    (host / "xdg/file").touch(mode=0o644)
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    assert content(etc.directory).keys() == {"nsswitch.conf", "ssl/certs/ca.crt", *POD_FILES}


def test_nothing_but_files_is_copied(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(host)  # the path would be too long for a socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("ssl/certs/s")
    os.mkfifo(host / "profile")
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    kinds = {stat.S_IFMT(each.lstat().st_mode) for each in etc.directory.rglob("*")}
    assert kinds == {stat.S_IFDIR, stat.S_IFREG}


def test_links_stay_links_where_they_lead_somewhere(host: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/resolv.conf").write_text("nameserver 10.0.0.1\n")
    (host / "resolv.conf").symlink_to("../run/resolv.conf")
    (host / "timezone").symlink_to(tmp_path / "run/resolv.conf")
    (host / "localtime").symlink_to("/usr/share/zoneinfo/UTC")
    (host / "shells").symlink_to(tmp_path / "missing")
    (host / "rpc").symlink_to("shadow")
    (host / "shadow").chmod(0o600)
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    found = content(etc.directory)
    assert found["localtime"] == "-> /usr/share/zoneinfo/UTC"
    assert found["resolv.conf"] == found["timezone"] == "nameserver 10.0.0.1\n"
    assert {"shells", "rpc", "shadow"}.isdisjoint(found)


def test_the_copy_follows_its_source(host: Path, tmp_path: Path) -> None:
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    (host / "passwd.new").write_text("another user")
    (host / "passwd.new").replace(host / "passwd")
    (host / "nsswitch.conf").unlink()
    (host / "ssl/certs/ca.crt").rename(host / "ssl/certs/b.crt")
    (host / "group").mkdir()
    etc.refresh()
    wanted = {"passwd": "another user", "ssl/certs/b.crt": "ssl/certs/ca.crt", **POD_FILES}
    assert content(etc.directory) == wanted
    (host / "group").rmdir()
    (host / "group").write_text("now a file")
    etc.refresh()
    assert content(etc.directory) == {**wanted, "group": "now a file"}


def test_nothing_is_written_while_nothing_changes(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    etc = HostEtc(tmp_path / "etc", host=host)
    etc.refresh()
    inodes = {each: each.lstat().st_ino for each in etc.directory.rglob("*")}
    HostEtc(tmp_path / "etc", host=host).refresh()
    assert {each: each.lstat().st_ino for each in etc.directory.rglob("*")} == inodes
    monkeypatch.setattr("plugbay.runtimes.oci.host_etc._copy", lambda *_: pytest.fail("it is looked at again"))
    etc.refresh()
