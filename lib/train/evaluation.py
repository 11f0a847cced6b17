"""How good a model is on the test set, or on what was held out in its place."""

import math
from collections.abc import Callable

import torch
from torch import nn

from lib import methods
from lib.data import Dataset
from lib.layers import NoisyLSTM, held_statistics, set_weight_noise, statistics_of
from lib.run import Run
from lib.train._start import preprocessing_of

EVERY_TIME_STEP = {"time_step": "recurrent", "time_step_all": "all"}  # which maps of an LSTM get fresh noise there
TEST_BATCH = 1000  # also the number of examples that batch norm's test statistics are taken over


@torch.no_grad()
def evaluate(
    model: nn.Module,
    run: Run,
    dataset: Dataset,
    noise: torch.Generator,
    *,
    draws: int,
    public: methods.Public | None = None,
    beat: Callable[[], None] = lambda: None,
) -> float:
    """Accuracy in percent on ``dataset``'s test set, averaged over ``draws`` passes with fresh weight noise.

    ``draws = 0`` is one pass without noise, at µ.  ``beat`` is called after every batch.
    """
    set_noise(model, run, noise, silent=draws == 0)
    # In training mode batch norm uses the statistics of the batch it is given, in evaluation mode its running
    # averages; WithPublic, in evaluation mode, those of public examples.  No other layer here has a mode.
    model.train(run.test_statistics == "batch" and not run.norm.startswith("public_batch"))
    preprocessing = preprocessing_of(run, dataset)
    chunks = math.ceil(len(dataset.test_labels) / TEST_BATCH)
    correct = torch.zeros((), dtype=torch.int64, device=dataset.test_labels.device)
    with statistics_of(model, public[0]) if run.test_statistics == "public" else held_statistics(model):
        for _ in range(max(draws, 1)):
            for x, y in zip(dataset.test_inputs.chunk(chunks), dataset.test_labels.chunk(chunks), strict=True):
                correct += (model(preprocessing.testing(x)).argmax(1) == y).sum()
                beat()
    return 100.0 * correct.item() / (len(dataset.test_labels) * max(draws, 1))


def set_noise(model: nn.Module, run: Run, noise: torch.Generator, *, silent: bool = False) -> None:
    """Weight noise as the run says, drawn from ``noise``; none if ``silent``.

    ``ValueError`` for settings of an LSTM's noise where there is no LSTM.
    """
    recurrent = [layer for layer in model.modules() if isinstance(layer, NoisyLSTM)]
    for name, values in (("weight_noise_on", {"lstm"}), ("weight_noise_draw", set(EVERY_TIME_STEP))):
        if (value := getattr(run, name)) in values and not recurrent:
            raise ValueError(f"{name}: expected another for model {run.model!r}, which has no LSTM; got {value!r}")
    std, bias = 0.0 if silent else run.weight_noise_std, run.weight_noise_on != "weights"
    lstm_alone = run.weight_noise_on == "lstm"
    set_weight_noise(model, 0.0 if lstm_alone else std, noise_on_bias=bias, generator=noise)
    for layer in recurrent:
        layer.noise_every_time_step = EVERY_TIME_STEP.get(run.weight_noise_draw, "none")
        set_weight_noise(layer, std, noise_on_bias=bias, generator=noise)
