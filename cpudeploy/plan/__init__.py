"""Deciding: what is wanted, what is, and what was resolved become a Plan. Pure."""

from .build import make_plan
from .destroy import destroy_plan
from .fingerprint import Mismatch, matches
from .history import history
from .not_yet import plannable
from .prune import prune_plan
from .questions import questions
from .rollback import rollback_plan

__all__ = [
    "Mismatch",
    "destroy_plan",
    "history",
    "make_plan",
    "matches",
    "plannable",
    "prune_plan",
    "questions",
    "rollback_plan",
]
