"""Kinds that clients define: CustomResourceDefinitions, and the objects of the kinds that they make."""
