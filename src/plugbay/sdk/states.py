"""The life of one served resource, as a table: a missing entry is an error.

The diagram in ``docs/plugin-author.md`` is made from it by ``tools/states.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class State(Enum):
    SETTING_UP = "setting up"
    """The author's ``set_up`` runs, or waits to be tried again."""
    STARTING = "starting"
    """Devices are looked for; the socket is not there yet."""
    SERVING = "serving"
    """The socket answers; the kubelet does not know of it, or refuses it."""
    REGISTERED = "registered"
    """The kubelet knows of the socket and has not asked for the list yet."""
    STREAMING = "streaming"
    """The kubelet reads the list: ready."""
    DRAINING = "draining"
    """No new calls; those under way finish."""
    TEARING_DOWN = "tearing down"
    """The author's ``tear_down`` runs."""
    STOPPED = "stopped"


class Event(Enum):
    SET_UP = "set up"
    SET_UP_FAILED = "set up failed"
    LISTENING = "listening"
    REGISTERED = "registered"
    STREAM_OPENED = "stream opened"
    STREAM_LOST = "stream lost"
    REGISTRATION_LOST = "registration lost"
    """The kubelet restarted, or somebody asked for a new registration."""
    STREAM_MISSING = "stream missing"
    """The kubelet accepted the registration and never asked for the list."""
    SOCKET_LOST = "socket lost"
    """Our socket vanished: a new incarnation begins."""
    RENEWAL = "renewal"
    """We give up our socket for a new one, which a plugin watcher takes for a new plugin."""
    STOP_REQUESTED = "stop requested"
    DRAINED = "drained"
    TORN_DOWN = "torn down"


TRANSITIONS: Final[Mapping[State, Mapping[Event, State]]] = {
    State.SETTING_UP: {
        Event.SET_UP: State.STARTING,
        Event.SET_UP_FAILED: State.SETTING_UP,
        Event.STREAM_LOST: State.SETTING_UP,  # of a life before that failed
        Event.STOP_REQUESTED: State.STOPPED,
    },
    State.STARTING: {
        Event.LISTENING: State.SERVING,
        Event.STREAM_OPENED: State.STARTING,  # of the incarnation before, as
        Event.STREAM_LOST: State.STARTING,
        Event.STOP_REQUESTED: State.DRAINING,
    },
    State.SERVING: {
        Event.REGISTERED: State.REGISTERED,
        # The kubelet asks for the list before its answer to Register reaches us, or still reads on an old registration.
        Event.STREAM_OPENED: State.SERVING,
        Event.STREAM_LOST: State.SERVING,
        Event.REGISTRATION_LOST: State.SERVING,
        Event.SOCKET_LOST: State.STARTING,
        Event.RENEWAL: State.STARTING,
        Event.STOP_REQUESTED: State.DRAINING,
    },
    State.REGISTERED: {
        Event.REGISTERED: State.REGISTERED,  # by the other route, or by a plugin watcher that asked twice
        Event.STREAM_OPENED: State.STREAMING,
        Event.STREAM_LOST: State.REGISTERED,
        Event.STREAM_MISSING: State.SERVING,
        Event.REGISTRATION_LOST: State.SERVING,
        Event.SOCKET_LOST: State.STARTING,
        Event.RENEWAL: State.STARTING,
        Event.STOP_REQUESTED: State.DRAINING,
    },
    State.STREAMING: {
        Event.REGISTERED: State.STREAMING,
        Event.STREAM_OPENED: State.STREAMING,
        Event.STREAM_LOST: State.SERVING,
        Event.REGISTRATION_LOST: State.SERVING,
        Event.SOCKET_LOST: State.STARTING,
        Event.RENEWAL: State.STARTING,
        Event.STOP_REQUESTED: State.DRAINING,
    },
    State.DRAINING: {
        Event.STREAM_OPENED: State.DRAINING,
        Event.STREAM_LOST: State.DRAINING,
        Event.DRAINED: State.TEARING_DOWN,
    },
    State.TEARING_DOWN: {
        Event.STREAM_LOST: State.TEARING_DOWN,  # gRPC may stop before a handler has ended
        Event.TORN_DOWN: State.STOPPED,
    },
    State.STOPPED: {
        Event.STREAM_LOST: State.STOPPED,
    },
}
