"""Ours: where v2 Table 4's text and its authors' code of v1 Table 6 differ, one difference at a time.

The code of the noise experiments was not released.  In that of v1 Table 6, a BiLSTM under SI-DPSGD, fresh noise is on
the LSTM's weights at every time step, the dense layer has none, and the vocabulary is that of the training texts; the
papers say none of it.  Fresh noise is tried on all of the LSTM's weights, as in the code, and on the recurrent ones
alone, with one draw for a text on those of the inputs.  The code has dropout of .8, spaCy's words, zeros for
an unknown one and layer norm of the cell state, too; none of that is tried.  The first row of each network is the
table's own, and the step size of every row is the one searched for the table.  The training texts' vocabulary changes
no word that is trained on, so its row tells how far two trainings of one seed lie apart that differ in rounding alone.
"""

from lib.tables import Table, agnews_noise
from lib.tables._choices import Choices

CHOICES = {
    "as in the table": {},
    "fresh recurrent noise at every time step": {"weight_noise_draw": "time_step"},
    "no noise on the dense layer": {"weight_noise_on": "lstm"},
    "both of these": {"weight_noise_draw": "time_step", "weight_noise_on": "lstm"},
    "fresh noise at every time step": {"weight_noise_draw": "time_step_all"},
    "fresh noise at every time step, none on the dense layer, as in the code": {
        "weight_noise_draw": "time_step_all",
        "weight_noise_on": "lstm",
    },
    "tested at µ": {"test_draws": 0},
    "vocabulary of the training texts, as in the code": {"vocabulary": "private"},
}
ROWS = {f"{model}, {choice}": (model, changes) for model in agnews_noise.MODELS for choice, changes in CHOICES.items()}

_CELLS = Choices(agnews_noise.TABLE, ROWS)

TABLE = Table(
    name="agnews_noise_choices",
    title="AG News test accuracy (%) with noise N(0, σ²) on the weights: what the papers say and what their code does",
    source="ours, on v2 Table 4",
    notebook="01_noise_robustness",
    rows=tuple(ROWS),
    column="weight_noise_std",
    columns=(1.0, 2.0),
    cell=_CELLS.cell,
    grid=agnews_noise.TABLE.grid,
    tuning=_CELLS.tuning,
    notes=agnews_noise.NOTES,
)
