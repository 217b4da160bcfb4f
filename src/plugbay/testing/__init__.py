"""What tests a plugin or a kubelet, in any language, over real sockets: public, for our users' tests too.

May live here: fakes that speak the protocols, clocks that stand still, conformance suites. May not: anything that
needs pytest or hypothesis when a fake alone is imported, or a private module of theirs at all.
"""
