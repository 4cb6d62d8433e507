"""The lab: real target hosts, registries and a model hub on this machine, for tests and the demo."""

from tests.lab.hosts import Host, HostSpec
from tests.lab.lab import Lab

__all__ = ["Host", "HostSpec", "Lab"]
