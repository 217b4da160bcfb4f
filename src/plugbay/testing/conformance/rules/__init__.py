"""The rules: 1xx registration, 2xx options, 3xx lists, 4xx Allocate, 5xx preferred allocation, 6xx the other calls,
7xx kubelet restarts and streams, 8xx load, leaks and idleness, 9xx the life of the process.

May live here: scenes and the rules that judge them, a module for each subject. May not: a sentence about a plugin that
does not say what was seen, or a rule without a page.
"""
