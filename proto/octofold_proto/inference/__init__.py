"""Stubs of the package `inference` of the Open Inference Protocol.

Other packages, such as tritonclient, have stubs with the same names. The stubs of this package use a descriptor
pool of their own, so that one process can load both.
"""

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
