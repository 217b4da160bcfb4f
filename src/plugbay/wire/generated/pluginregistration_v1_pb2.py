"""Made by ``make proto`` from ``../proto/pluginregistration_v1.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("pluginregistration_v1.proto"))
