"""Files to `Manifest(deployment, positions, playbooks, warnings)`. Pure: reads the files it is given only.

Never connects, never resolves a secret, never asks a registry or Hub.
"""

from .load import Manifest, load
from .playbooks import load_playbook

__all__ = ["Manifest", "load", "load_playbook"]
