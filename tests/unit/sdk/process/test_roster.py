"""The decision of the roster: which plugins stop, start and are refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from plugbay import DevicePlugin
from plugbay.model.ids import ResourceName, parse_resource_name
from plugbay.sdk.author.plugin import resource_of
from plugbay.sdk.process.roster import RosterStep, next_step


class Plugin(DevicePlugin):
    def __init__(self, name: str) -> None:
        self.resource_name = f"example.com/{name}"


PLUGINS = [Plugin(name) for name in "aabbc"]
Served = dict[ResourceName, DevicePlugin]


def named(plugins: list[Plugin]) -> list[tuple[ResourceName, DevicePlugin]]:
    return [(resource_of(plugin), plugin) for plugin in plugins]


def after(served: Served, step: RosterStep) -> Served:
    """What is served when ``step`` is done."""
    return {name: plugin for name, plugin in served.items() if name not in step.stop} | dict(step.start)


wanted_plugins = st.lists(st.sampled_from(PLUGINS), unique_by=id)
served_plugins = st.lists(st.sampled_from(PLUGINS), unique_by=lambda plugin: plugin.resource_name).map(
    lambda plugins: dict(named(plugins))
)


@given(wanted_plugins, served_plugins)
def test_what_is_wanted_and_served_is_left_alone(wanted: list[Plugin], served: Served) -> None:
    step = next_step(named(wanted), served)
    for name, plugin in served.items():
        assert (name in step.stop) == (plugin not in wanted)
    assert not step.start.keys() & served.keys()


@given(wanted_plugins, served_plugins)
def test_two_steps_end_with_every_wanted_resource_and_no_other(wanted: list[Plugin], served: Served) -> None:
    between = after(served, next_step(named(wanted), served))
    end = after(between, next_step(named(wanted), between))
    assert end.keys() == {resource_of(plugin) for plugin in wanted}
    last = next_step(named(wanted), end)
    assert (last.stop, last.start) == ((), {})
    assert len(end) + len(last.refused) == len(wanted)


def test_first_that_wants_a_resource_has_it_unless_another_serves_it() -> None:
    first, second = Plugin("a"), Plugin("a")
    name = parse_resource_name("example.com/a")
    assert next_step(named([first, second]), {}) == RosterStep((), {name: first}, (second,))
    assert next_step(named([first, second]), {name: second}) == RosterStep((), {}, (first,))
