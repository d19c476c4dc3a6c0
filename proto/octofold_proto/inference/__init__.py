"""Stubs of the package `inference` of the Open Inference Protocol.

Other projects, such as tritonclient, have stubs with the same names. Those of this package are in a pool of
their own, so that one process can load both.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
