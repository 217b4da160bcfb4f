"""The end of a use: which PostStopContainer and Deallocate calls are due, their order, the calls and their outcomes."""
