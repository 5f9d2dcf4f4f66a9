"""Teach a model to sort things of one's own, from examples of the right order."""

from truesort.teaching.learning import Recipe
from truesort.teaching.lesson import check, teach
from truesort.teaching.measuring import Figure, Report
from truesort.teaching.model import Ranking, Taught, load
from truesort.teaching.sheet import contact_sheet

__all__ = ["Figure", "Ranking", "Recipe", "Report", "Taught", "check", "contact_sheet", "load", "teach"]
