"""Mistakes in a plugin that are found before it is served: attributes of no use, and hooks under another name."""

from __future__ import annotations

from plugbay.errors import InvalidPlugin
from plugbay.sdk.author.cdi_answers import CdiAnswer
from plugbay.sdk.author.modes import Modes
from plugbay.sdk.author.occasions import check_occasions
from plugbay.sdk.author.plugin import DevicePlugin


def check_attributes(plugin: DevicePlugin) -> None:
    """Check the values that an author may have given to a plugin's attributes.

    Raises:
        InvalidPlugin: one of them is of no use, and would fail much later, or never stop failing.
    """
    name = plugin.resource_name
    check_occasions(name, watch=plugin.watch, every=plugin.every)
    if not (plugin.modes is None or isinstance(plugin.modes, Modes)):
        raise InvalidPlugin(name, f"`modes` is {plugin.modes!r} and not a plugbay.Modes")
    if not isinstance(plugin.check_paths, bool):
        raise InvalidPlugin(name, f"`check_paths` is {plugin.check_paths!r} and neither True nor False")
    if not (plugin.join_env is None or isinstance(plugin.join_env, str)):
        raise InvalidPlugin(name, f"`join_env` is {plugin.join_env!r} and neither a text nor None")
    if not (plugin.cdi_kind is None or isinstance(plugin.cdi_kind, str)):
        raise InvalidPlugin(name, f"`cdi_kind` is {plugin.cdi_kind!r} and neither a text nor None")
    if not (isinstance(plugin.cdi_answer, CdiAnswer) and plugin.cdi_answer):
        raise InvalidPlugin(
            name, f"`cdi_answer` is {plugin.cdi_answer!r}; it has to be one of plugbay.CdiAnswer or more"
        )
    if plugin.needs:
        from plugbay.sdk.author.needs import check_needs  # imported here: few plugins declare any

        check_needs(name, plugin.needs)
