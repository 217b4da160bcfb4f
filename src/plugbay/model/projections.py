"""References of a pod to other objects, and to itself: for files of its volumes, and variables of its containers.

Source: Kubernetes 1.36 ``core/v1/types.go``, ``pkg/api/v1/resource/helpers.go``.
"""

from __future__ import annotations

from enum import Enum
from fractions import Fraction
from typing import Final

from plugbay.model.quantity import Quantity
from plugbay.values import dataclass

DEFAULT_FILE_MODE: Final = 0o644
DEFAULT_TOKEN_S: Final = 3600
ONE: Final = Quantity(Fraction(1))


class ConfigKind(Enum):
    """A kind of objects that hold values by keys; named as in a kubelet's messages."""

    CONFIG_MAP = "configmap"
    SECRET = "secret"


@dataclass(frozen=True, slots=True)
class ResourceReference:
    """A request or limit of a container: v1's ``resourceFieldRef``.

    Attributes:
        resource: such as ``limits.cpu``.
        container: empty means the container whose environment it stands in.
        divisor: the unit of the answer, which is rounded up.
    """

    resource: str
    container: str = ""
    divisor: Quantity = ONE


@dataclass(frozen=True, slots=True)
class KeyReference:
    """The value of one key.

    Attributes:
        optional: the variable is left out if the key or the object is missing.
    """

    kind: ConfigKind
    name: str
    key: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class EnvSource:
    """All keys of an object as variables, each name with ``prefix`` before it: v1's ``envFrom``."""

    kind: ConfigKind
    name: str
    prefix: str = ""
    optional: bool = False


@dataclass(frozen=True, slots=True)
class KeyFile:
    """The value of ``key`` as a file at ``path`` below the volume; without a mode it has the volume's."""

    key: str
    path: str
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Values of a config map or secret.

    Attributes:
        items: none means that every key is a file of its name.
        optional: the object, or a key of it, may be missing.
    """

    kind: ConfigKind
    name: str
    items: tuple[KeyFile, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class FieldFile:
    """A field of the pod, or a request or limit of a container, as a file."""

    path: str
    field: str | ResourceReference
    mode: int | None = None


@dataclass(frozen=True, slots=True)
class FieldFiles:
    items: tuple[FieldFile, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token of the pod's service account; an empty audience is the API's."""

    path: str
    audience: str = ""
    expires_s: int = DEFAULT_TOKEN_S


ProjectedSource = KeyFiles | FieldFiles | TokenFile


class ProjectionKind(Enum):
    """The field of a v1 Volume that holds a projection. All but the last have one source."""

    CONFIG_MAP = "configMap"
    SECRET = "secret"
    DOWNWARD_API = "downwardAPI"
    PROJECTED = "projected"


@dataclass(frozen=True, slots=True)
class Projection:
    """A volume whose files the node writes, and writes again when their sources change."""

    kind: ProjectionKind
    sources: tuple[ProjectedSource, ...]
    default_mode: int = DEFAULT_FILE_MODE

    @property
    def is_secret(self) -> bool:
        """Whether a part of it must not lie on a disk."""
        return any(
            isinstance(source, TokenFile) or (isinstance(source, KeyFiles) and source.kind is ConfigKind.SECRET)
            for source in self.sources
        )
