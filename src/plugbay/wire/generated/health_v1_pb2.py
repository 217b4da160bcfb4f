"""Made by ``make proto`` from ``../proto/health_v1.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("health_v1.proto"))
