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
    FORGOTTEN = "forgotten"
    """The socket answers; the kubelet has dropped its registration, and a plugin watcher may not know that."""
    REGISTERED = "registered"
    """The kubelet knows of the socket and has not asked for the list yet."""
    STREAMING = "streaming"
    """The kubelet reads the list: ready."""
    STANDING_BY = "standing by"
    """A younger process serves the resource; this one registers again when that one has ended."""
    DRAINING = "draining"
    """The plugin takes no new calls; calls under way finish."""
    TEARING_DOWN = "tearing down"
    """The author's ``tear_down`` runs."""
    STOPPED = "stopped"


class LifeEvent(Enum):
    SET_UP = "set up"
    SET_UP_FAILED = "set up failed"
    LISTENING = "listening"
    REGISTERED = "registered"
    """The kubelet accepted the registration, and no stream is open."""
    REGISTERED_READING = "registered and reading"
    """The kubelet accepted the registration after it had begun to read the list."""
    REGISTERED_HUNG_UP = "registered and hung up"
    """The kubelet accepted the registration, but had closed the stream of the list before its answer came."""
    STREAM_OPENED = "stream opened"
    STREAM_LOST = "stream lost"
    REGISTRATION_LOST = "registration lost"
    """The kubelet restarted."""
    ASKED_ANEW = "asked anew"
    """The operator wants a new registration, whatever the kubelet thinks."""
    STREAM_MISSING = "stream missing"
    """The kubelet accepted the registration and never asked for the list."""
    TAKEN_OVER = "taken over"
    """A younger process that serves the resource wants to be registered in place of this one."""
    LEFT_ALONE = "left alone"
    """The younger process has ended."""
    LEFT_READING = "left alone and reading"
    """The younger process has ended, and the kubelet reads our list as before."""
    SOCKET_LOST = "socket lost"
    """Our socket vanished: a new incarnation begins."""
    RENEWAL = "renewal"
    """We give up our socket for a new one, which a plugin watcher takes for a new plugin."""
    STOP_REQUESTED = "stop requested"
    DRAINED = "drained"
    TORN_DOWN = "torn down"


TRANSITIONS: Final[Mapping[State, Mapping[LifeEvent, State]]] = {
    State.SETTING_UP: {
        LifeEvent.SET_UP: State.STARTING,
        LifeEvent.SET_UP_FAILED: State.SETTING_UP,
        LifeEvent.STREAM_LOST: State.SETTING_UP,  # of a life before that failed
        LifeEvent.ASKED_ANEW: State.SETTING_UP,  # nothing is registered yet
        LifeEvent.STOP_REQUESTED: State.STOPPED,
    },
    State.STARTING: {
        LifeEvent.LISTENING: State.SERVING,
        LifeEvent.STREAM_OPENED: State.STARTING,  # of the incarnation before, as
        LifeEvent.STREAM_LOST: State.STARTING,
        LifeEvent.ASKED_ANEW: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.SERVING: {
        LifeEvent.REGISTERED: State.REGISTERED,
        LifeEvent.REGISTERED_READING: State.STREAMING,
        LifeEvent.REGISTERED_HUNG_UP: State.FORGOTTEN,
        # The kubelet asks for the list before its answer to Register reaches us, or still reads on an old registration.
        LifeEvent.STREAM_OPENED: State.SERVING,
        LifeEvent.STREAM_LOST: State.SERVING,
        LifeEvent.REGISTRATION_LOST: State.SERVING,
        LifeEvent.ASKED_ANEW: State.FORGOTTEN,
        LifeEvent.TAKEN_OVER: State.STANDING_BY,
        LifeEvent.SOCKET_LOST: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.FORGOTTEN: {
        LifeEvent.REGISTERED: State.REGISTERED,
        LifeEvent.REGISTERED_READING: State.STREAMING,
        LifeEvent.REGISTERED_HUNG_UP: State.FORGOTTEN,
        LifeEvent.STREAM_OPENED: State.FORGOTTEN,  # on an old registration
        LifeEvent.STREAM_LOST: State.FORGOTTEN,
        LifeEvent.REGISTRATION_LOST: State.FORGOTTEN,
        LifeEvent.ASKED_ANEW: State.FORGOTTEN,
        LifeEvent.TAKEN_OVER: State.STANDING_BY,
        LifeEvent.SOCKET_LOST: State.STARTING,
        LifeEvent.RENEWAL: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.REGISTERED: {
        LifeEvent.REGISTERED: State.REGISTERED,  # by the other route, or by a plugin watcher that asked twice
        LifeEvent.REGISTERED_HUNG_UP: State.FORGOTTEN,
        LifeEvent.STREAM_OPENED: State.STREAMING,
        LifeEvent.STREAM_LOST: State.REGISTERED,
        LifeEvent.STREAM_MISSING: State.FORGOTTEN,
        LifeEvent.REGISTRATION_LOST: State.SERVING,
        LifeEvent.ASKED_ANEW: State.FORGOTTEN,
        LifeEvent.TAKEN_OVER: State.STANDING_BY,
        LifeEvent.SOCKET_LOST: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.STREAMING: {  # a stream is open, so no other registration finds none
        LifeEvent.REGISTERED_READING: State.STREAMING,
        LifeEvent.STREAM_LOST: State.FORGOTTEN,
        LifeEvent.REGISTRATION_LOST: State.SERVING,
        LifeEvent.ASKED_ANEW: State.FORGOTTEN,
        LifeEvent.TAKEN_OVER: State.STANDING_BY,
        LifeEvent.SOCKET_LOST: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.STANDING_BY: {
        LifeEvent.STREAM_OPENED: State.STANDING_BY,
        LifeEvent.STREAM_LOST: State.STANDING_BY,
        LifeEvent.REGISTRATION_LOST: State.STANDING_BY,
        LifeEvent.ASKED_ANEW: State.STANDING_BY,
        LifeEvent.LEFT_ALONE: State.FORGOTTEN,
        LifeEvent.LEFT_READING: State.STREAMING,
        LifeEvent.SOCKET_LOST: State.STARTING,
        LifeEvent.STOP_REQUESTED: State.DRAINING,
    },
    State.DRAINING: {
        LifeEvent.STREAM_OPENED: State.DRAINING,
        LifeEvent.STREAM_LOST: State.DRAINING,
        LifeEvent.ASKED_ANEW: State.DRAINING,
        LifeEvent.DRAINED: State.TEARING_DOWN,
    },
    State.TEARING_DOWN: {
        LifeEvent.STREAM_LOST: State.TEARING_DOWN,  # an end that is cancelled twice does not wait for streams
        LifeEvent.ASKED_ANEW: State.TEARING_DOWN,
        LifeEvent.TORN_DOWN: State.STOPPED,
    },
    State.STOPPED: {
        LifeEvent.STREAM_LOST: State.STOPPED,
        LifeEvent.ASKED_ANEW: State.STOPPED,
    },
}

REGISTRATIONS: Final = frozenset({LifeEvent.REGISTERED, LifeEvent.REGISTERED_READING, LifeEvent.REGISTERED_HUNG_UP})
"""The events by which a kubelet accepts a registration."""
KEPT: Final = frozenset({State.SERVING, State.FORGOTTEN, State.REGISTERED, State.STREAMING})
"""The states in which sockets are served and kept registered."""


def shown(state: State) -> State:
    """The state that onlookers are told: a kubelet that forgot the plugin does not know of it."""
    return State.SERVING if state is State.FORGOTTEN else state
