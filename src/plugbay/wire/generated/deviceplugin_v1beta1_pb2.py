"""Made by ``make proto`` from ``../proto/deviceplugin_v1beta1.proto``; never edited."""

from plugbay.wire.pool import messages

globals().update(messages("deviceplugin_v1beta1.proto"))
