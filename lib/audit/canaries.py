"""The white-box attack: canaries in orthogonal coordinates, trained by the library's own step.

Of m canaries each is among the examples by a fair coin; where neighbours differ in an example that is replaced, one
with the opposite gradient has its place instead.  Canary i's gradient is the same in every step, longer than the clip
norm, and points along row i of an embedding and nowhere else, so clipping ties no canary to another; where batches do
not either (``INDEPENDENT``), every row is an independent run of the mechanism on one example.  The other examples'
gradients are zero: (ε, δ)-DP has to hold for such data too.  All is in float64, so what is wrong with float32 alone is
not seen, as it was not of its noise (:mod:`lib.gaussian`).  The attack reads, as ``released`` says,

``last``        the last iterate: how far its row has moved from θ_0 against the canary's gradient
``transcript``  every iterate, by the likelihood ratio where one is known: :mod:`lib.audit.iterates`

    >>> from lib.run import Run
    >>> run = Run(dataset="digits", model="lenet5", method="dpsgd", optimizer="sgd", sampler="poisson", lr=0.1,
    ...           epochs=1, batch_size=100, clip_norm=1.0, noise_multiplier=2.0)
    >>> found = attack(run, examples=1437, canaries=500)
    >>> found.epsilon() <= 3.1
    True
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lib.audit import bounds
from lib.audit.attacked import coins, train
from lib.audit.iterates import Iterates
from lib.generators import generator
from lib.methods import Method
from lib.run import Run

RELEASED = ("last", "transcript")
SCALE, SURE = 1e3, 1e9  # logits of -1e9 and 0, which no training changes: gradients of norm 1e3, always
INDEPENDENT = ("poisson", "balls_and_bins", "fixed_order")  # samplers under which no canary's part depends on another's
METHODS = ("dpsgd", "si_dpsgd", "correlated_noise")  # that clip every example by itself, as does IC


@dataclass(frozen=True)
class Attack:
    """Scores (m,) and coins (m,) of the canaries, the δ of the run, and its sampler."""

    scores: np.ndarray
    included: np.ndarray
    delta: float
    sampler: str

    def epsilon(self) -> float:
        """ε, with 95 % confidence, by the test that fits: that of many runs, where rows are independent ones."""
        return self.many_runs() if self.sampler in INDEPENDENT else self.one_run()

    def one_run(self) -> float:
        """ε from one run with many canaries, see :func:`lib.audit.bounds.one_run`."""
        return bounds.one_run(self.scores, self.included, delta=self.delta)

    def many_runs(self) -> float:
        """ε of the rows as independent runs, see :func:`lib.audit.bounds.many_runs`.

        ``ValueError`` where they are not: batches of a fixed size hold one canary in the place of another.
        """
        if self.sampler not in INDEPENDENT:
            raise ValueError(f"sampler: expected one of {', '.join(INDEPENDENT)}, or one_run(); got {self.sampler!r}")
        return bounds.many_runs(self.scores, self.included, delta=self.delta)


class Canaries(nn.Module):
    """Canary numbers (B,) → logits (B, 2), so sure of class 1 that those of class 0 have a constant gradient.

    Its update moves row i by +1 or −1 times its length, as ``signs`` (m,) say.
    """

    def __init__(self, signs: Tensor) -> None:
        super().__init__()
        self.rows = nn.Embedding(len(signs), 1, dtype=torch.float64)
        nn.init.zeros_(self.rows.weight)
        self.register_buffer("signs", signs.double()[:, None])

    def forward(self, numbers: Tensor) -> Tensor:
        return nn.functional.pad(SCALE * self.signs[numbers] * self.rows(numbers) - SURE, (0, 1))

    @torch.no_grad()
    def moved(self) -> Tensor:
        """How far every row has moved along its canary's update, (m,)."""
        return self.rows.weight[:, 0].clone()

    def gradient(self) -> Tensor:
        """What the optimiser follows, along every canary's gradient, (m,)."""
        return -self.rows.weight.grad[:, 0]


def fits(run: Run) -> bool:
    """Whether the run clips every example's whole gradient by itself: of batch clipping, mini-sets of one do (bc's IC).

    Not where examples share statistics, nor where batches are drawn with replacement: there an empty place is two
    examples changed, one removed and one added.
    """
    alone = run.method in METHODS or (run.method == "batch_clipping" and run.mini_set_size == 1)
    return alone and run.statistics != "mixed" and run.sampler != "with_replacement"


def attack(run: Run, *, examples: int, canaries: int = 2000, released: str = "last") -> Attack:
    """Train as ``run`` says, but for its data and its model: ``canaries`` among ``examples``.

    Raises ``ValueError`` for a run that canaries do not fit (:func:`fits`), and for more canaries than examples.
    """
    if released not in RELEASED:
        raise ValueError(f"released: expected one of {', '.join(RELEASED)}; got {released!r}")
    if not fits(run):
        raise ValueError(
            f"method: expected one of {', '.join(METHODS)}, or batch_clipping of mini-sets of one; "
            "a sampler other than with_replacement; and statistics other than mixed; "
            f"got {run.method!r}, {run.sampler!r} and {run.statistics!r}"
        )
    if not 1 <= canaries <= examples:
        raise ValueError(f"canaries: expected 1 to {examples}, the number of examples; got {canaries}")
    included, replaced = coins(run, canaries), run.neighbouring_relation == "replace_one"
    model = Canaries(torch.where(included | (not replaced), 1.0, -1.0))
    # Canaries anywhere among the examples: in a fixed order, each has its own place in the epoch.
    places = torch.randperm(examples, generator=generator(run.seed, "audit places"))[:canaries]
    numbers, present = torch.zeros(examples, dtype=torch.long), torch.zeros(examples, dtype=torch.bool)
    numbers[places], present[places] = torch.arange(canaries), included | replaced
    iterates = Iterates(places.numpy(), replaced)

    def observe(method: Method, step: int) -> None:
        if released == "transcript":
            iterates.observe(method, model.moved().numpy(), model.gradient().numpy(), step)

    with train(run, model, numbers, torch.zeros_like(numbers), present, observe):
        scores = iterates.scores() if released == "transcript" else model.moved().numpy()
    return Attack(scores, included.numpy(), run.delta, run.sampler)
