"""Made by ``make proto`` from ``../proto/podresources_v1.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("podresources_v1.proto"))
