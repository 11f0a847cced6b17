"""A run: one cell of one table under one seed, as plain data.

    >>> from lib.run import Run
    >>> run = Run(dataset="mnist", model="lenet5", lr=1e-3, epochs=10, batch_size=256, norm="batch")
    >>> run.id
    'bbc1d6653a57'

The id names every setting that can change the result and nothing else: device, worker count and the like are recorded
with the result, never hashed, nor is what is in the files and the data that it names.  Fields that hold their default
value are left out of the hash, so a new field with a default leaves every stored id alone; for the same reason **a
default never changes its meaning**.
"""

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Self, get_args, get_type_hints

from lib import accounting, registry
from lib.run import allowed


@dataclass(frozen=True, kw_only=True)
class Run:
    """Settings of one training run.

    ======================  ============================================================================================
    dataset                 name of a data set, see :mod:`lib.data`
    model                   name of a file in ``lib/models``
    norm                    normalisation layer after each trainable layer: none | batch | layer |
                            layer_without_affine (no γ and β, and none after the last layer, as v1's code of MNIST) |
                            instance (batch norm of a batch of one) | group_without_affine (two groups) |
                            public_batch, public_batch_without_affine (batch norm that sees the public examples) |
                            noised_batch_without_affine (on running averages, noised)
    activation              relu | tanh
    method                  name of a file in ``lib/methods``
    optimizer               adam | sgd, which turns the method's gradient into an update
    lr                      step size η
    momentum                of sgd: v ← momentum · v + g, w ← w − η v
    lr_schedule             constant | linear | exponential | linear_then_constant | one_cycle, see :mod:`lib.schedules`
    lr_decay                exponential: factor per epoch.  linear_then_constant: the factor at which it stays
    lr_decay_epochs         linear_then_constant: epochs until then
    epochs, batch_size      passes over the training data; examples per step, the expected number where it is random
    sampler                 shuffled | poisson | without_replacement | with_replacement | balls_and_bins |
                            fixed_order, see :mod:`lib.sampling`
    seed                    from which one generator per purpose is made (init, sampling, noise, …)
    weight_noise_std        σ of w ~ N(µ, σ²), in training and testing (v2 section 2)
    weight_noise_on         weights_and_biases | weights | lstm: both, of the LSTM alone, as in v1's code; the affine
                            γ, β of normalisation layers are never noised
    weight_noise_draw       step: fresh noise in every forward pass | epoch: one draw held for an epoch | time_step: in
                            every time step of an LSTM, of its recurrent weights | time_step_all: of all (v1's code)
    test_draws              noise draws over which the test accuracy is averaged; 0 evaluates at µ, without noise
    test_statistics         batch norm at test: batch (of the test batch) | running (averages from training) |
                            public (of the public examples)
    validation_examples     0: train on the whole training set, report on the test set.  v > 0: hold out v training
                            examples, report on them, and never look at the test set
    gradient_noise_std      of noisy_sgd: noise on every coordinate of the mean gradient, without clipping
    clip_norm               C of the private methods; None: no clipping, for noise_multiplier = 0
    clip_norm_decay         factor on C after every epoch
    clipped                 gradient: the whole one to C | layer: the L layers' by themselves, each to C/√L
    noise_multiplier        z = noise std ÷ C; None: the smallest that keeps to ``epsilon``
    noise_multiplier_decay  factor on z after every epoch
    epsilon                 the budget, as ``accountant`` counts; with a ``noise_multiplier`` of its own, training ends
                            when the next step would exceed it, after ``epochs`` at the latest.  None: no budget
    delta                   δ of the (ε, δ)
    accountant              what counts the claimed ε, see :mod:`lib.accounting`; it must match the sampler
    neighbouring_relation   add_or_remove_one | replace_one
    pca_noise_multiplier    z of the private PCA that sets a model's projection layer; None: the model has none
    test_at                 of si_dpsgd: theta (the noised θ_T, v1 algorithm 1) | mu (its mean, as v1's code does)
    public_examples         training examples that are declared public and not trained on (D_pub of bc), or
    public_dataset          the data set whose first test images are the public examples instead (v1, v2: KMNIST)
    trained_on              private | public: on public_examples alone, and the private ones are not touched
    mini_set_size           s of batch_clipping: the mean gradients of mini-sets of s examples are clipped
    averaged_over           the noised sum is divided by the number of clipped: vectors (bc) | examples
    gradient_norm_examples  public examples on which the layers' gradient norms are measured before every epoch
    layers                  what adaptive_layerwise clips by itself: tensors | modules | four_groups, by norm
    adaptive_clipping       enhanced (C_h = C·e_h/max e) | zhang (C_h = C·e_h) | multiplication_factors (bc B.2)
    fix_converged           never | epoch: fixed is what moved no more in an epoch than noise does on average (bc 3.4)
                            | hovering: what moved less than all but a twentieth of what noise alone moves
    augmentation            none | shift | crop | crop_and_flip | crop_24_and_flip, see :mod:`lib.preprocessing`
    augmult                 of dpsgd: augmentation multiplicity, the views of an example whose mean gradient is clipped
    input_scale             unit (pixels in [0, 1]) | standardised
    statistics              of public_batch, in training: public | per_example | mixed: :mod:`lib.layers.with_public`
    statistics_gradient     off: they are constants | on: gradients flow through them, and the public examples
    statistics_batch        of mixed: the private examples that share statistics; 0: the whole batch
    statistics_clip_norm    C' of noised_batch: the bound on activations in the statistics
    statistics_share        of noised_batch: the part of the budget, in µ², that the statistics get
    first_weights           of si_dpsgd: exact (θ_0 = µ_0, v1 algorithm 1) | noised (as v1's code begins)
    noise_power             p of correlated_noise: 0 DPSGD … 1 SI-DPSGD, see :class:`lib.accounting.Spectrum`
    noise_bands             how many of its coefficients are kept; 0: all
    last_norm               as_designed | removed | added: of the models of v2 Table 3, see :mod:`lib.models`
    vocabulary              of texts: public (every word that has a vector) | private (those in the training texts)
    pretrained_on           a public data set.  The model's convolutions are those of :attr:`Run.pretraining` and fixed;
                            its linear layers are trained, on their outputs for the images as they are tested
    pretraining_epochs      epochs of that
    pretraining_norm        its norm; '': this run's
    ======================  ============================================================================================

    Raises ``ValueError`` or ``TypeError`` naming the field, what was expected and what came.
    """

    dataset: str
    model: str
    lr: float
    epochs: int
    batch_size: int
    norm: str = "none"
    method: str = "non_private"
    optimizer: str = "adam"
    lr_schedule: str = "constant"
    seed: int = 0
    weight_noise_std: float = 0.0
    weight_noise_on: str = "weights_and_biases"
    weight_noise_draw: str = "step"
    test_draws: int = 5
    test_statistics: str = "batch"
    validation_examples: int = 0
    momentum: float = 0.0
    lr_decay: float = 1.0
    lr_decay_epochs: int = 0
    sampler: str = "shuffled"
    gradient_noise_std: float = 0.0
    clip_norm: float | None = None
    clip_norm_decay: float = 1.0
    clipped: str = "gradient"
    noise_multiplier: float | None = None
    noise_multiplier_decay: float = 1.0
    epsilon: float | None = None
    delta: float = 1e-5
    accountant: str = "pld"
    neighbouring_relation: str = "add_or_remove_one"
    pca_noise_multiplier: float | None = None
    test_at: str = "theta"
    activation: str = "relu"
    public_examples: int = 0
    mini_set_size: int = 1
    averaged_over: str = "vectors"
    gradient_norm_examples: int = 0
    layers: str = "tensors"
    adaptive_clipping: str = "enhanced"
    fix_converged: str = "never"
    augmentation: str = "none"
    augmult: int = 1
    input_scale: str = "unit"
    public_dataset: str = ""
    statistics: str = "public"
    statistics_gradient: str = "off"
    statistics_batch: int = 0
    statistics_clip_norm: float | None = None
    statistics_share: float = 0.0
    first_weights: str = "exact"
    noise_power: float = 0.0
    noise_bands: int = 0
    last_norm: str = "as_designed"
    pretrained_on: str = ""
    pretraining_epochs: int = 0
    pretraining_norm: str = ""
    vocabulary: str = "public"
    trained_on: str = "private"

    def __new__(cls, **values: Any) -> Self:
        if unknown := sorted(values.keys() - cls.__dataclass_fields__.keys()):
            known = ", ".join(cls.__dataclass_fields__)
            raise ValueError(f"unknown run field {unknown[0]!r}; expected some of {known}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        # Tables make tens of thousands of runs, and most fields have their default, which needs no check.
        given = [(name, kinds) for name, kinds, default in _fields(type(self)) if getattr(self, name) is not default]
        for name, kinds in given:
            object.__setattr__(self, name, allowed.checked(name, kinds, getattr(self, name)))
        registry.check("models", self.model)
        registry.check("methods", self.method)
        for name, _ in given:
            allowed.check_range(name, getattr(self, name))
        allowed.check_statistics(self)
        allowed.check_unused(self)
        allowed.check_decays(self)
        allowed.check_pretraining(self)
        allowed.check_public_examples(self)
        if self.method != "non_private" and (self.epsilon is not None or self.noise_multiplier):
            accounting.check_match(self.accountant, self.sampler, self.neighbouring_relation)

    @property
    def hashed(self) -> dict[str, Any]:
        """The fields that the id is made from: those without a default, and those that differ from it."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}

    @cached_property
    def id(self) -> str:
        """12 hex digits of SHA-256 over the canonical JSON of :attr:`hashed`."""
        text = json.dumps(self.hashed, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    @property
    def pretraining(self) -> Self | None:
        """The run whose convolutions this one takes over, None if it takes none.

        Ordinary training on ``pretrained_on`` under seed 0, with Adam, a step size that falls from .001 to 0 and
        batches of 128; model, activation, augmentation and scale are this run's, and so is the norm where
        ``pretraining_norm`` names no other, but that batch norm which is made for private examples is ordinary there,
        tested on running averages: all of it is public.
        """
        if not self.pretrained_on:
            return None
        norm = self.pretraining_norm or self.norm
        special = norm.startswith(("public_batch", "noised_batch", "batch"))
        return type(self)(
            dataset=self.pretrained_on,
            model=self.model,
            norm="batch" if special else norm,
            last_norm=self.last_norm,
            test_statistics="running" if special else "batch",
            activation=self.activation,
            augmentation=self.augmentation,
            input_scale=self.input_scale,
            lr=0.001,
            lr_schedule="linear",
            batch_size=128,
            epochs=self.pretraining_epochs,
        )

    @property
    def datasets(self) -> set[str]:
        """The data sets that it takes examples from."""
        return {self.dataset, self.pretrained_on, self.public_dataset} - {""}

    @property
    def words(self) -> str:
        """A few words for people, the readable half of the run's file name; not unique."""
        parts = [self.model] + [w for w in (self.norm, self.method) if w not in ("none", "non_private")]
        if self.last_norm != "as_designed":
            parts.append(f"last_norm_{self.last_norm}")
        if self.weight_noise_std or self.gradient_noise_std:
            parts.append(f"noise{self.weight_noise_std or self.gradient_noise_std:g}")
        if self.epsilon:
            parts.append(f"eps{self.epsilon:g}")
        return "-".join([*parts, f"lr{self.lr:g}", f"seed{self.seed}"])


@cache
def _fields(cls: type) -> list[tuple[str, tuple[type, ...], Any]]:
    """Of every field its name, the types that it may have, and its default."""
    kinds = get_type_hints(cls)
    return [(f.name, get_args(kinds[f.name]) or (kinds[f.name],), f.default) for f in fields(cls)]
