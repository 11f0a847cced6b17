"""Attacks on what a method claims: measured, so lower bounds, where :mod:`lib.accounting` proves upper ones."""

from lib.audit.canaries import attack as attack
from lib.audit.meter import sensitivity as sensitivity
