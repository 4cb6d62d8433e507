"""Deciding: what is wanted, what is, and what was resolved become a Plan. Pure."""

from .build import destroy_plan, make_plan
from .fingerprint import Mismatch, matches
from .not_yet import plannable
from .prune import prune_plan
from .questions import questions

__all__ = ["Mismatch", "destroy_plan", "make_plan", "matches", "plannable", "prune_plan", "questions"]
