"""Stubs of the package `inference` of the Open Inference Protocol.

Other projects, such as tritonclient, have stubs with the same names. The stubs of this package use a separate
descriptor pool, so that one process can load both.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
