"""Commands about the command line: ``completion``, ``help`` and ``version``."""
