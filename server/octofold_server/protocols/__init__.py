"""The protocols of the service, each in its own module or package."""
