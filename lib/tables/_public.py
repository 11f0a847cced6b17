"""Batch norm with public images at the size of a tier, in the tables that have it.

v1 has 30 public images and v2 128; where gradients flow through them, an example costs as much as 1 + M, and in v2's
own batch norm, where B examples share statistics, as much as B + M.  So tier ``cpu`` has few of both, and few epochs.
"""

from dataclasses import replace
from typing import Any

from lib.run import Run

M_THROUGH = {"smoke": 4, "cpu": 8, "paper": 128}
M_CONSTANT = {"smoke": 4, "cpu": 128, "paper": 128}
SHARED_BY = {"smoke": 16, "cpu": 8, "paper": 32}  # private examples that share v2's statistics
EPOCHS = {"smoke": (1, 1, 1, 1, 1), "cpu": (3, 3, 3, 3, 2), "paper": (30, 30, 40, 40, 15)}  # by regime of ε
SEARCH_EPOCHS = {"smoke": 1, "cpu": 1, "paper": 10}
NORM = "public_batch_without_affine"
NOTES = {
    "cpu": "batch norm sees 8 public images, as constants 128; v2's own has statistics of these and 8 private ones"
}


def with_public(run: Run, tier: str, *, statistics: str = "public", gradient: str = "on", most: int = 128) -> Run:
    """``run`` with batch norm that sees the first KMNIST images, or in tier ``smoke`` some of the training set's.

    ``most``: how many the paper has.
    """
    changes: dict[str, Any] = {"norm": NORM, "statistics": statistics}
    changes["statistics_gradient"] = "off" if tier == "smoke" else gradient  # off is a tenth of the work
    changes["public_examples"] = min(most, (M_THROUGH if gradient == "on" else M_CONSTANT)[tier])
    changes["public_dataset"] = "" if tier == "smoke" else "kmnist"
    if statistics == "mixed" and run.method != "non_private":
        changes["statistics_batch"] = SHARED_BY[tier]
    return replace(run, **changes)
