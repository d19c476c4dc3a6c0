"""The package `inference` of the Open Inference Protocol: a process has these stubs or another project's, such
as tritonclient's, since both register the same names."""
