"""Stubs of the package `inference` of the Open Inference Protocol.

A process can load only one project's stubs of this package: these or, for example, tritonclient's. Both
register the same names.
"""
