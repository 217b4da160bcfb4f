"""Made by ``make proto`` from ``../proto/cri_v1.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("cri_v1.proto"))
