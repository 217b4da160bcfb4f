"""A report in the shapes that other programs and people read: JSON, JUnit's XML, a page.

May live here: functions from a report to a text. May not: anything that judges, or trusts what a plugin printed.
"""
