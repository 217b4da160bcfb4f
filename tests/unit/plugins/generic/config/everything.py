"""A config with every field that there is, and the places of its values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from plugbay.documents.texts import read_documents
from plugbay.model.field_path import FieldPath

EVERYTHING: Final = """\
$schema: generic.schema.json
domain: example.com
listen: :8080
log-level: info
plugin-directory: /var/lib/kubelet/device-plugins
compat:
  - usbDeviceIds
devices:
  - name: paths
    domain: a.example.com
    prefer: pcieRoot
    shared: true
    cdi: example.com/serial
    groups:
      - paths:
          - path: /dev/ttyUSB*
            mountPath: /dev/serial/
            type: Device
            permissions: rw
            limit: 2
            optional: true
            resolve: true
            anyFile: true
          - path: /etc/ssl
            type: Mount
            readOnly: true
        count: 2
        onePerContainer: true
        env:
          SERIAL_${index}: '{path}'
        mounts:
          - hostPath: /run/{serial}
            containerPath: /run/gopher
            readOnly: true
        annotations:
          example.com/port: '{port}'
        links: true
        health:
          open: true
          driver: true
          exec:
            - /bin/probe
            - '{path}'
          every: 30s
          timeout: 5s
          grace: 2m
        release:
          exec:
            - /bin/reset
          timeout: 5s
        numaNodes:
          - 0
      - usb:
          - vendor: '10c4'
            product: ea60
            serial: '0001'
        bundle: true
        rawNode: true
        nodes:
          - subsystem: tty
            mountPath: /dev/zigbee
            permissions: r
            optional: true
  - name: '{vendor}-{model}'
    match:
      subsystem: tty
      devtype: usb_device
      driver: cp210x
      name: ttyUSB*
      node: /dev/ttyUSB*
      vendor: 10c4
      product:
        - ea60
        - ea7?
      serial: '0001'
      manufacturer: Silicon*
      model: CP*
      port: 1-2.*
      bus: usb
      class: '08'
      address: '0000:*'
      numaNode: 0
      attr:
        speed: 480
      property:
        ID_BUS: usb
      and:
        - name: tty*
      or:
        - name: tty1
        - name: tty2
      not:
        name: ttyS*
    each: true
  - name: net
    interfaces:
      driver: mlx5_core
    interfaceName: net1
  - name: licences
    tokens: 5
"""


def everything() -> dict[str, Any]:
    """The value of the config, made anew."""
    (document,) = read_documents(EVERYTHING, source="everything.yaml")
    assert isinstance(document.value, dict)
    return document.value


def places(value: object, path: FieldPath = ()) -> Iterator[FieldPath]:
    """The path of every value inside another one."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield (*path, key)
        yield from places(below, (*path, key))


def put(value: Any, path: FieldPath, new: object) -> None:
    """Replace the value at a place."""
    for step in path[:-1]:
        value = value[step]
    value[path[-1]] = new


def rename(value: Any, path: FieldPath, new: str) -> None:
    """Give a key another name, at the same place among its neighbours."""
    for step in path[:-1]:
        value = value[step]
    entries = [(new if key == path[-1] else key, each) for key, each in value.items()]
    value.clear()
    value.update(entries)
