"""The wire: our ``.proto`` files, message classes, conversion to `plugbay.model`, transports, status codes.

May live here: everything that knows protobuf or gRPC. May not: deciding what to answer. Protobuf types do not leave
this package; the functions and classes of its modules take and give values of `plugbay.model`.
"""
