"""The remembered life of a resource's plugins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plugbay.manager.state import MOST_MOMENTS, EndpointEvent, EndpointLife

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_plugin_that_registers_without_a_pause_is_counted_and_fills_no_memory() -> None:
    life = EndpointLife()
    for second in range(200):
        life.note(NOW + timedelta(seconds=second), EndpointEvent.REGISTERED, "a.sock")
        life.note(NOW + timedelta(seconds=second), EndpointEvent.ENDED, "a.sock")
    assert (life.registrations, life.open_streams, len(life.moments)) == (200, 0, MOST_MOMENTS)
    assert life.moments[-1].at == NOW + timedelta(seconds=199)
