"""Every exhibit: well formed, its runs valid, nothing printed outside its cells."""

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest

from lib import methods, models, registry, tables
from lib.tables import TIERS, Printed

TABLES = [tables.load(name) for name in registry.names("tables")]


def point(table, row, column):
    """Some point of the cell's grid."""
    return next(iter(table.points(row, column, "cpu")), {})


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
class TestEveryTable:
    def test_it_says_where_its_networks_are_narrower(self, table):
        runs = [table.cell(*cell, seed=0, tier="cpu", **point(table, *cell)) for cell in table.cells]
        assert "width" in table.notes.get("cpu", "") or not any(run.model.endswith("_narrow") for run in runs)

    def test_it_says_where_tier_cpu_makes_the_first_epochs_of_bcs(self, table):
        runs = [table.cell(*cell, seed=0, tier="cpu", **point(table, *cell)) for cell in table.cells]
        short = table.source.startswith("bc ") and any(run.epochs < 50 for run in runs)
        assert not short or "the first epochs of bc's 50" in table.notes["cpu"]

    def test_it_is_named_like_its_file_and_its_figure_exists(self, table):
        assert tables.load(table.name) is table
        assert table.figure is None or tables.load(table.figure).notebook == table.notebook

    @pytest.mark.parametrize("tier", TIERS)
    def test_every_cell_and_seed_is_a_run_of_its_own(self, table, tier):
        cells = [(row, column, seed) for row, column in table.cells for seed in range(3)]
        runs = [table.cell(r, c, seed=seed, tier=tier, **point(table, r, c)) for r, c, seed in cells]
        for row in table.rows:  # two rows may share a run, as two methods do at ε = ∞
            of_row = [run.id for run, (r, _, _) in zip(runs, cells, strict=True) if r == row]
            assert len(set(of_row)) == len(of_row)
        assert all(
            getattr(run, table.column) == column for run, (_, column) in zip(runs[::3], table.cells, strict=True)
        )

    @pytest.mark.parametrize("tier", TIERS)
    def test_tuning_holds_out_validation_examples_and_differs_by_point(self, table, tier):
        for row, column in table.cells:
            runs = [table.tuning(row, column, tier=tier, **p) for p in table.points(row, column, tier)]
            assert len({run.id for run in runs}) == len(runs)
            assert all(run.validation_examples > 0 for run in runs)

    def test_a_tier_that_there_is_not_is_refused_by_name(self, table):
        with pytest.raises(ValueError, match="unknown tier 'gpu'; expected one of smoke, cpu, paper"):
            table.cell(*table.cells[0], seed=0, tier="gpu", **point(table, *table.cells[0]))

    def test_only_the_smoke_tier_uses_its_data(self, table):
        data = {
            tier: {table.cell(*c, seed=0, tier=tier, **point(table, *c)).dataset for c in table.cells} for tier in TIERS
        }
        digits = {"digits", "digits_rgb", "topics"}
        assert data["smoke"] <= digits
        assert not digits & (data["cpu"] | data["paper"])

    def test_printed_numbers_belong_to_cells(self, table):
        assert set(table.printed) <= set(product(table.rows, table.columns))
        assert all(cell.mean is None or 0 < cell.mean < 100 for cell in table.printed.values())

    @pytest.mark.parametrize("tier", TIERS)
    def test_all_rows_are_tuned_over_the_same_grid(self, table, tier):
        tuned = [points for cell in table.cells if (points := table.points(*cell, tier))]
        assert all(points == tuned[0] for points in tuned)


def test_what_is_no_table_of_its_name_is_refused(monkeypatch):
    copied = SimpleNamespace(TABLE=tables.load("mnist_noise"))
    for found, got in ((copied, "'mnist_noise'"), (SimpleNamespace(), "none")):
        monkeypatch.setattr(registry, "load", lambda room, name, found=found: found)
        with pytest.raises(ValueError, match=f"expected TABLE, a Table with name='mnist_copy'.* got {got}"):
            tables.load("mnist_copy")
    with pytest.raises(ValueError, match="column: expected a field of Run; got 'weight_noise'"):
        replace(copied.TABLE, column="weight_noise")


def test_a_cell_takes_seed_tier_and_what_is_tuned():
    table = tables.load("mnist_noise")
    with pytest.raises(ValueError, match=r"mnist_noise: cell: expected .*\*, seed, tier\); got .* \(row, column\)$"):
        replace(table, cell=lambda row, column: None, tuning=None)
    with pytest.raises(ValueError, match=r"tuning: expected tuning\(row, column, \*, tier, lr\); got .*, \*, tier\)"):
        replace(table, cell=lambda *_, **__: None, grid={"lr": (0.1,)}, tuning=lambda row, column, *, tier: None)


def test_a_cell_that_gives_no_run_and_a_grid_that_nothing_judges_are_refused():
    table = tables.load("mnist_noise")
    forgotten = replace(table, cell=lambda *_, **__: None)
    with pytest.raises(ValueError, match=r"^mnist_noise: cell: expected a Run for 'LeNet-5'; got None"):
        forgotten.cell("LeNet-5", 1.0, seed=0, tier="cpu", lr=0.1)
    with pytest.raises(ValueError, match=r"^mnist_noise: tuning: expected the run that judges a point of the grid"):
        replace(table, tuning=None, cell=lambda *_, **__: None)


def test_a_cell_that_forgets_its_seed_is_refused():
    """Its record would be found under every seed, and whoever counts them would never end."""
    table = tables.load("mnist_noise")
    forgotten = replace(table, cell=lambda *args, seed, **how: table.cell(*args, seed=0, **how))
    assert forgotten.cell("LeNet-5", 1.0, seed=0, tier="cpu", lr=0.1).seed == 0
    with pytest.raises(ValueError, match=r"^mnist_noise: cell: expected a Run with seed=1 for 'LeNet-5'; got 0"):
        forgotten.cell("LeNet-5", 1.0, seed=1, tier="cpu", lr=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": ()}, r"rows: expected a tuple of one or more, each once; got \(\)"),
        ({"rows": ("LeNet-5", "LeNet-5")}, "rows: expected a tuple of one or more, each once"),
        ({"rows": "LeNet-5"}, "rows: expected a tuple of one or more, each once; got 'LeNet-5'"),
        ({"columns": (1, 1.0)}, "columns: expected a tuple of one or more, each once"),
        ({"grid": {"lr": ()}}, "grid: lr: expected a tuple of one or more, each once"),
        ({"grid": {"step": (0.1,)}}, "grid: expected a field of Run; got 'step'"),
    ],
)
def test_a_table_of_nothing_or_of_one_thing_twice_is_refused(changed, message):
    with pytest.raises(ValueError, match=f"^mnist_noise: {message}"):
        replace(tables.load("mnist_noise"), **changed)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"printed": {("LeNet5", 1.0): Printed(98.0)}}, r"printed: expected some of LeNet-300-100, .*; got 'LeNet5'"),
        ({"printed": {("LeNet-5", 0.2): Printed(98.0)}}, r"printed: expected some of 0.0, 0.01, .*; got 0.2"),
        ({"not_run": {"LATENT": "why"}}, "not_run: expected some of LeNet-300-100, .*; got 'LATENT'"),
        ({"notes": {"gpu": "less"}}, "notes: expected some of smoke, cpu, paper; got 'gpu'"),
    ],
)
def test_what_is_said_of_no_row_column_or_tier_is_refused(changed, message, monkeypatch):
    mine = SimpleNamespace(TABLE=replace(tables.load("mnist_noise"), **changed))
    monkeypatch.setattr(registry, "load", lambda room, name: mine)
    with pytest.raises(ValueError, match=f"^mnist_noise: {message}"):
        tables.load("mnist_noise")


def test_a_search_without_validation_examples_is_refused_before_it_is_trained():
    table = tables.load("mnist_noise")
    forgotten = replace(table, tuning=lambda *args, **how: replace(table.tuning(*args, **how), validation_examples=0))
    with pytest.raises(
        ValueError, match=r"tuning: expected a Run with validation_examples, .*; got none for 'LeNet-5'"
    ):
        forgotten.tuning("LeNet-5", 1.0, tier="cpu", lr=0.1)


@pytest.mark.parametrize(("columns", "at"), [((0.5, None), 0.5), ((None, 0.5), 0.5), ((7.0, 1.0), 1.0)])
def test_in_tier_smoke_the_middle_finite_column_is_searched(columns, at):
    table = tables.load("mnist_si_dpsgd")
    cut = replace(table, columns=columns)
    searched = {column: cut.tuning("DPSGD (LeNet-5)", column, tier="smoke", lr=1.0) for column in columns}
    expected = replace(table, columns=(at,)).tuning("DPSGD (LeNet-5)", at, tier="smoke", lr=1.0)
    assert set(searched.values()) == {expected}


def test_a_notebook_that_there_is_not_is_refused(monkeypatch):
    mine = SimpleNamespace(TABLE=replace(tables.load("mnist_noise"), name="mine", notebook="09_mine"))
    monkeypatch.setattr(registry, "load", lambda room, name: mine)
    message = r"^lib/tables/mine\.py: expected notebook to be one of 00_tour, .*07_speed; got '09_mine'"
    with pytest.raises(ValueError, match=message):
        tables.load("mine")


def test_v2_table_2_is_all_there():
    table = tables.load("mnist_noise")
    printed = {row for row, _ in table.printed}
    assert len([c for c in table.cells if c[1] != 0.3 and c[0] in printed]) == 30
    assert sum(cell.mean or 0 for cell in table.printed.values()) == pytest.approx(2562.09)  # the paper's 26 numbers
    assert sum(cell.mean is None for cell in table.printed.values()) == 6  # 4 "No-convergence", 2 of the text
    assert table.printed["BN-LeNet-5", 2.0] == Printed(99.25, 0.07)


def test_the_figure_shares_its_tuning_runs_with_the_table():
    table, figure = tables.load("mnist_noise"), tables.load("mnist_convergence")
    shared = [
        one.tuning(row, 1.0, tier="cpu", lr=0.1).id for one, row in ((table, "BN-LeNet-5"), (figure, figure.rows[1]))
    ]
    assert shared[0] == shared[1]


def test_printed_cells_read_as_in_the_paper():
    assert Printed(98.2, 0.07).text == "98.20 ± 0.07"
    assert Printed(89.34).text == "89.34"
    assert Printed().text == "no convergence"
    assert Printed(30, up_to=40).text == "30 to 40"
    assert Printed(67, note="60 at epoch 20").text == "67.00 (60 at epoch 20)"


class TestBatchClipping:
    @pytest.mark.parametrize("table", [t for t in TABLES if t.name.startswith("bc_")], ids=lambda table: table.name)
    def test_the_paper_tier_has_the_settings_of_the_paper(self, table):
        for row, column in table.cells:
            run = table.cell(row, column, seed=0, tier="paper", **point(table, row, column))
            share = 10 if row.endswith("a tenth of D_pub") else 1
            assert share * run.public_examples == {"cifar10": 5000, "mnist": 6000}[run.dataset]
            assert run.input_scale == "standardised"
            if table.name not in ("bc_equal_epsilon", "bc_public_alone"):
                epochs = 10 if (table.name, run.model) == ("bc_noise", "resnet18") else 50  # figure 5
                lr = column if table.column == "lr" else 0.025
                assert (run.lr, run.epochs, run.augmentation) == (lr, epochs, "crop_and_flip")
            if run.method != "non_private":
                assert (run.sampler, run.neighbouring_relation) == ("without_replacement", "replace_one")
                assert run.mini_set_size in (1, run.batch_size)

    @pytest.mark.parametrize(("row", "layers"), [("resnet-18, ALC", 62), ("convnet, ALC", 18), ("BN-LeNet-5, ALC", 8)])
    def test_the_discount_is_that_of_the_layers_which_are_clipped(self, row, layers):
        table, run = tables.load("bc_alc_vs_fgc"), {}
        for kind in ("ALC", "FGC, same σ", "FGC, same ε"):
            run[kind] = table.cell(row.replace("ALC", kind), 64, seed=0, tier="paper")
        model = models.build(run["ALC"].model, norm="batch")
        alc, equal = (methods.build(run[kind], 54_000, model).budget for kind in ("ALC", "FGC, same ε"))
        assert alc.discount == pytest.approx(layers**0.5)
        assert alc.events[0].noise_multiplier == pytest.approx(equal.events[0].noise_multiplier)
        assert run["FGC, same σ"].noise_multiplier == run["ALC"].noise_multiplier

    def test_with_bc_s_step_size_it_is_bc_s_run(self):
        """And with others, nothing else."""
        steps, *others = map(tables.load, ("bc_step_sizes", "bc_ic_vs_bc", "bc_alc_vs_fgc"))
        for row, tier in product(steps.rows, ("smoke", "cpu", "paper")):
            (table,) = (table for table in others if row in table.rows)
            known = table.cell(row, 0.9 if table.column == "lr_decay" else 64, seed=1, tier=tier)
            assert steps.cell(row, 0.025, seed=1, tier=tier) == known
            assert steps.cell(row, 0.4, seed=1, tier=tier) == replace(known, lr=0.4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tables.load("mnist_nose"),
            f"unknown table 'mnist_nose'; expected one of {', '.join(registry.names('tables'))}",
        ),
        (lambda: tables.check_tier("gpu"), "unknown tier 'gpu'; expected one of smoke, cpu, paper"),
    ],
)
def test_unknown_names_are_refused_with_the_list(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_v2_table_5_shares_its_plain_and_its_layer_norm_rows_with_v1_table_4():
    table, other = tables.load("mnist_dpsgd_bn"), tables.load("mnist_si_dpsgd")
    rows = {row: row for row in ("DPSGD (LeNet-5)", "DPSGD (LN-LeNet-5)")}
    for row, like in (rows | {"LN-LeNet-5, four views": "DPSGD (LN-LeNet-5), four views"}).items():
        for column in table.columns:
            how = {"tier": "cpu", **point(table, row, column)}
            assert table.cell(row, column, seed=1, **how) == other.cell(like, column, seed=1, **how)
            assert table.printed.get((row, column)) == other.printed.get((like, column))


@pytest.mark.parametrize("tier", TIERS)
def test_the_row_with_views_is_the_layer_norm_row_but_for_views_and_epochs(tier):
    table, (plain, views) = tables.load("mnist_dpsgd_bn"), ("DPSGD (LN-LeNet-5)", "LN-LeNet-5, four views")
    for column in table.columns:
        how = {"tier": tier, **point(table, plain, column)}
        one, four = (table.cell(row, column, seed=1, **how) for row in (plain, views))
        private = {} if column is None else {"augmult": 4, "epochs": (1 if tier == "smoke" else 2) * one.epochs}
        assert four == replace(one, augmentation="shift", **private)
        if column is not None:
            one, four = (table.tuning(row, column, **how) for row in (plain, views))
            assert four == one


def test_v2_table_3_is_all_there():
    table = tables.load("cifar10_noise")
    assert len(table.cells) == 30
    assert sum(cell.mean or 0 for cell in table.printed.values()) == pytest.approx(2421.11)  # the paper's 28 numbers
    assert sum(cell.mean is None for cell in table.printed.values()) == 2
    assert table.printed["VGG-16", 1.0] == Printed(63.12, 8.21)


@pytest.mark.parametrize(
    ("name", "cells", "total"), [("cifar10_si_dpsgd", 42, 3613.51), ("cifar10_dpsgd_bn", 16, 1192.7)]
)
def test_v1_table_5_and_v2_table_6_are_all_there(name, cells, total):
    numbers = [cell.mean for cell in tables.load(name).printed.values()]
    assert (len(numbers), sum(numbers)) == (cells, pytest.approx(total))


@pytest.mark.parametrize("tier", TIERS)
def test_v2_table_3_varies_the_last_norm_layer_and_nothing_else(tier):
    table = tables.load("cifar10_noise")
    for name in ("ResNet-18", "VGG-16"):
        runs = [table.cell(row, 1.0, seed=0, tier=tier, lr=0.1) for row in (name, f"{name}-mod", f"BN-{name}")]
        assert [run.last_norm for run in runs] == ["as_designed", "removed", "added"]
        assert len({replace(run, last_norm="as_designed") for run in runs}) == 1
        assert runs[0].model.endswith("_narrow") == (tier != "paper")


SMALL_EPSILON = {  # where SI-DPSGD has small batches: table → largest ε, its rows
    "mnist_si_dpsgd": (0.5, [f"SI-DPSGD ({net})" for net in ("LeNet-5", "LN-LeNet-5", "BN-LeNet-5")]),
    "agnews_si_dpsgd": (1.0, ["SI-DPSGD (BiLSTM-DL)", "SI-DPSGD (LN-BiLSTM-DL)"]),
    "cifar10_si_dpsgd": (1.0, ["SI-DPSGD (TF-tutorial)"]),
}


@pytest.mark.parametrize("name", SMALL_EPSILON)
@pytest.mark.parametrize("tier", ["cpu", "paper"])
def test_where_epsilon_is_small_si_dpsgd_has_small_batches_and_steps_and_its_search_has_them_too(name, tier):
    table, (largest, rows) = tables.load(name), SMALL_EPSILON[name]
    for row, column in product(rows, table.columns[1:]):
        for run in (table.cell(row, column, seed=0, tier=tier, lr=1.0), table.tuning(row, column, tier=tier, lr=1.0)):
            assert (run.batch_size <= 64) == (column <= largest), (row, column)
            assert run.lr == (0.1 if column <= largest else 1.0), (row, column)


def test_v1_table_5_has_v2_table_6s_plain_row():
    table, other = tables.load("cifar10_si_dpsgd"), tables.load("cifar10_dpsgd_bn")
    row, twin = table.rows[0], other.rows[0]
    for column in other.columns:
        how = {"tier": "cpu", **point(table, row, column)}
        assert table.cell(row, column, seed=1, **how) == other.cell(twin, column, seed=1, **how)
        assert table.printed[row, column] == other.printed[twin, column]


def test_v1_table_5_has_gradients_through_the_statistics_and_an_exhibit_what_they_are_worth():
    table, choice = tables.load("cifar10_si_dpsgd"), tables.load("cifar10_si_dpsgd_statistics")
    deep = [row for row in table.rows if row.startswith("SI-DPSGD (") and "TF-tutorial" not in row]
    assert len(deep) == 3
    for tier in ("cpu", "paper"):
        for row in deep:
            assert table.cell(row, 8.0, seed=0, tier=tier, lr=0.25).statistics_gradient == "on"
        constants, through = (choice.cell(row, 8.0, seed=0, tier=tier) for row in choice.rows)
        assert through == table.cell("SI-DPSGD (VGG-16)", 8.0, seed=0, tier=tier, lr=0.25)
        assert constants == replace(through, statistics_gradient="off")


@pytest.mark.parametrize("tier", TIERS)
def test_v2_table_6_trains_on_pretrained_convolutions_and_v1_table_5_from_scratch(tier):
    public = "stripes_rgb" if tier == "smoke" else "cifar100"
    for name in ("cifar10_dpsgd_bn", "cifar10_si_dpsgd"):
        table = tables.load(name)
        for row, column in table.cells:
            run = table.cell(row, column, seed=0, tier=tier, **point(table, row, column))
            scratch = name == "cifar10_si_dpsgd" and row != table.rows[0]
            assert run.pretrained_on == ("" if scratch else public)
            assert run.public_dataset == (public if run.public_examples else "")
            assert (run.augmentation == "crop_24_and_flip") == (run.model == "tf_tutorial")


def test_a_row_of_v2_table_6_has_one_pretraining_whatever_is_private():
    table = tables.load("cifar10_dpsgd_bn")
    found = {}
    for row, column in table.cells:
        runs = [table.tuning(row, column, tier="cpu", **p) for p in table.points(row, column, "cpu")]
        runs += [table.cell(row, column, seed=seed, tier="cpu") for seed in range(2)]
        found.setdefault(row, set()).update(run.pretraining.id for run in runs)
    assert all(len(ids) == 1 for ids in found.values())
    assert len(set.union(*found.values())) == 7  # TF tutorial: plain, LN, BN; light VGG: BN, GN, plain; ResNet-18


@pytest.mark.parametrize("tier", TIERS)
def test_only_v2s_own_row_has_statistics_that_private_examples_share(tier):
    table = tables.load("mnist_dpsgd_bn")
    for row, column in table.cells:
        run = table.cell(row, column, seed=0, tier=tier)
        assert (run.statistics == "mixed") == (row == "DPSGD (BN-LeNet-5)")
        assert run.public_dataset == ("kmnist" if run.public_examples and tier != "smoke" else "")


def test_in_tier_smoke_one_search_serves_a_row():
    table = tables.load("mnist_noise")
    for tier, searched in (("smoke", {0.3}), ("cpu", set(table.columns))):
        found = {table.tuning("LeNet-5", sigma, tier=tier, lr=0.1).weight_noise_std for sigma in table.columns}
        assert found == searched


def test_a_table_with_other_columns_searches_at_its_own():
    table, smoke = tables.load("mnist_noise"), {"tier": "smoke", "lr": 0.1}
    for columns in ((0.5, 0.7, 0.9), (0.1, 0.2, 0.4)):
        table = replace(table, columns=columns)
        assert {table.tuning("LeNet-5", sigma, **smoke).weight_noise_std for sigma in columns} == {columns[1]}


def test_a_row_that_ends_early_leaves_its_last_cells_out():
    found = tables.printed((0.0, 1.0, 2.0), {"a": (90.0, 80.0), "b": (None, 70.0, 60.0)})
    assert {cell: number.mean for cell, number in found.items()} == {
        ("a", 0.0): 90.0,
        ("a", 1.0): 80.0,
        ("b", 1.0): 70.0,
        ("b", 2.0): 60.0,
    }


SETTINGS = [  # of the papers or of their code, at their scale
    (
        "mnist_paper_and_code",
        "LeNet-5, as v1 says",
        0.1,
        {"noise_multiplier": 7.1, "clip_norm": 3.1, "batch_size": 32, "epochs": 10, "momentum": 0.0},
    ),
    (
        "mnist_paper_and_code",
        "LeNet-5, as the code does",
        0.1,
        {"momentum": 0.9, "lr_decay": 0.9, "test_at": "mu", "sampler": "with_replacement"},
    ),
    (
        "mnist_si_dpsgd",
        "SI-DPSGD (LeNet-5)",
        1.0,
        {"clip_norm": 3.1, "accountant": "rdp_2020", "delta": 1e-5, "test_at": "theta"},
    ),
    ("mnist_si_dpsgd", "SI-DPSGD (BN-LeNet-5)", 1.0, {"public_examples": 30}),
    ("mnist_si_dpsgd", "SI-DPSGD (BN-LeNet-5), at µ_T", 1.0, {"public_examples": 30, "test_at": "mu"}),
    ("mnist_dpsgd_bn", "DPSGD (BN-LeNet-5)", 1.0, {"public_examples": 128}),
    ("mnist_dpsgd_bn", "BN-LeNet-5, public alone", 1.0, {"statistics": "public", "statistics_gradient": "on"}),
    (
        "cifar10_si_dpsgd",
        "SI-DPSGD (ResNet-18)",
        1.0,
        {"clip_norm": 2.5, "public_examples": 30, "statistics_batch": 16},
    ),
    ("agnews_si_dpsgd", "SI-DPSGD (BiLSTM-DL)", 1.0, {"clip_norm": 7.0}),
    ("agnews_noise", "BiLSTM-DL", 1.0, {"epochs": 25, "batch_size": 300, "lr_schedule": "linear"}),
    ("mnist_noisy_updates", "LN-LeNet-300-100", 0.1, {"norm": "layer"}),
    (
        "bc_batch_size",
        "BN-LeNet-5, σ = 2.5, C = .2",
        64,
        {
            "noise_multiplier": 5.0,
            "clip_norm": 0.2,
            "lr_decay": 0.9,
            "test_statistics": "public",
            "activation": "tanh",
            "gradient_norm_examples": 6000,
        },
    ),
    ("bc_clip_norm", "convnet, m = 1024, σ = .01875", 0.1, {"batch_size": 1024, "noise_multiplier": 0.0375}),
    ("bc_alc_vs_fgc", "convnet, ALC", 64, {"noise_multiplier": 1.0, "clip_norm": 0.14}),
    ("bc_batch_norm", "BN-LeNet-5", 64, {"noise_multiplier": 3.0, "clip_norm": 0.2}),
    ("bc_batch_norm", "convnet, running averages", 64, {"test_statistics": "running"}),
    ("bc_ic_vs_bc", "resnet-18, BC", 0.9, {"noise_multiplier": 0.0375, "clip_norm": 0.0095}),
    ("bc_ic_vs_bc", "resnet-18 without BN, BC, C falling", 0.9, {"clip_norm": 0.095, "clip_norm_decay": 0.9}),
    ("bc_equal_epsilon", "BC", 2.0, {"augmentation": "crop"}),
    ("mnist_convergence", "BN-LeNet-5, one step size", 1.0, {"validation_examples": 10_000}),
    ("cifar10_convergence", "BN-ResNet-18, one step size", 1.0, {"validation_examples": 5_000}),
    ("agnews_noise_choices", "BiLSTM-DL, tested at µ", 1.0, {"test_draws": 0}),
    ("bc_batch_size", "BN-LeNet-5, σ = 2.5, C = .2", 1024, {"accountant": "clt", "mini_set_size": 1024}),
    ("bc_ic_vs_bc", "convnet without BN, IC", 1.0, {"mini_set_size": 1, "batch_size": 64}),
    ("bc_ic_vs_bc", "convnet without BN, BC", 1.0, {"mini_set_size": 64}),
    ("bc_ic_vs_bc", "resnet-18, IC", 0.9, {"norm": "instance", "test_statistics": "batch", "mini_set_size": 1}),
    ("bc_ic_vs_bc", "resnet-18, BC, Zhang's", 0.9, {"adaptive_clipping": "zhang", "clip_norm": 1.0}),
    ("bc_batch_norm", "convnet without BN", 64, {"norm": "none", "noise_multiplier": 1.0, "clip_norm": 0.14}),
    (
        "bc_public_alone",
        "convnet, D_pub alone",
        64,
        {"optimizer": "adam", "lr": 0.001, "lr_schedule": "linear", "epochs": 50, "test_statistics": "running"},
    ),
    (
        "bc_equal_epsilon",
        "BC, batches of 64",
        2.0,
        {"batch_size": 64, "accountant": "pld", "clip_norm": 0.1, "lr": 0.05, "epochs": 40},
    ),
    (
        "bc_equal_epsilon",
        "IC without BN",
        2.0,
        {"batch_size": 512, "mini_set_size": 1, "lr": 0.5, "lr_schedule": "linear"},
    ),
    ("bc_equal_epsilon", "BC, Zhang's ALC", 2.0, {"adaptive_clipping": "zhang", "clip_norm": 1.0, "lr": 5e-05}),
    ("bc_equal_epsilon", "BC, ALC, four groups", 2.0, {"layers": "four_groups"}),
    (
        "mnist_si_dpsgd",
        "DPSGD (LeNet-5)",
        3.0,
        {"clip_norm": 0.5, "momentum": 0.9, "lr_schedule": "linear", "accountant": "pld", "activation": "tanh"},
    ),
    ("mnist_si_dpsgd", "SI-DPSGD (LeNet-5)", 3.0, {"batch_size": 256, "momentum": 0.0, "lr_schedule": "constant"}),
    ("mnist_si_dpsgd", "DPSGD (LeNet-5)", 0.5, {"batch_size": 1024, "epochs": 40}),
    ("mnist_si_dpsgd", "DPSGD (LN-LeNet-5)", 7.0, {"batch_size": 4096, "activation": "relu"}),
    (
        "mnist_si_dpsgd",
        "DPSGD [1]",
        1.0,
        {"momentum": 0.0, "lr": 2.5, "batch_size": 16384, "epochs": 240, "pca_noise_multiplier": 8.0},
    ),
    (
        "mnist_si_dpsgd",
        "DPSGD [1]",
        0.5,
        {"momentum": 0.9, "lr": 0.25, "batch_size": 2048, "pca_noise_multiplier": 16.0},
    ),
    ("mnist_si_dpsgd", "DPSGD [1]", 7.0, {"pca_noise_multiplier": 4.0}),
    ("mnist_si_dpsgd", "DPSGD [1], momentum 0.9", 1.0, {"momentum": 0.9, "lr": 0.25}),
    (
        "mnist_dp_accountants",
        "DPSGD (LeNet-5), v1's noise",
        0.05,
        {"accountant": "rdp_2020", "clip_norm": 0.5, "momentum": 0.9},
    ),
    ("mnist_dp_batches", "LeNet-5, smaller batches", 3.0, {"batch_size": 1024, "epochs": 30}),
    ("mnist_dp_batches", "LeNet-5, large batches", 0.5, {"batch_size": 4096, "epochs": 40}),
    ("mnist_dp_choices", "LN-LeNet-5, no momentum", 1.0, {"momentum": 0.0, "lr": 2.5}),
    ("mnist_dp_choices", "LN-LeNet-5, tanh", 1.0, {"activation": "tanh", "norm": "layer_without_affine"}),
    ("mnist_dpsgd_bn", "DPSGD (BN-LeNet-5)", 0.05, {"statistics": "mixed", "statistics_batch": 32, "epochs": 15}),
    (
        "mnist_dpsgd_bn",
        "BN-LeNet-5, public alone, as constants",
        1.0,
        {"lr": 1.0, "activation": "tanh", "statistics_gradient": "off"},
    ),
    ("mnist_dpsgd_bn", "BN-LeNet-5, public alone, as constants", None, {"lr": 0.002}),
    (
        "mnist_dpsgd_bn",
        "BN-LeNet-5, noised running averages",
        1.0,
        {"lr": 1.0, "statistics_share": 0.2, "statistics_clip_norm": 3.0},
    ),
    ("mnist_dpsgd_bn", "BN-LeNet-5, noised running averages", None, {"norm": "batch", "test_statistics": "running"}),
    ("mnist_public_examples", "BN-LeNet-5, public alone, as constants", 8, {"epsilon": 1.0, "lr": 1.0, "epochs": 10}),
    ("mnist_noise", "BN-LeNet-5", 0.1, {"epochs": 30, "lr_schedule": "linear"}),
    ("mnist_noise", "BN-LeNet-5", 0.3, {"epochs": 100}),
    ("mnist_noise_choices", "BN-LeNet-300-100, one draw per epoch", 0.1, {"weight_noise_draw": "epoch"}),
    ("mnist_noise_choices", "BN-LeNet-300-100, no noise on biases", 0.1, {"weight_noise_on": "weights"}),
    ("mnist_noisy_updates", "LeNet-300-100", 0.1, {"optimizer": "sgd", "lr_schedule": "linear"}),
    ("mnist_convergence", "BN-LeNet-5, one step size", 5.0, {"epochs": 100, "lr": 0.1, "lr_schedule": "constant"}),
    ("mnist_convergence", "BN-LeNet-5, one step size", 10.0, {"epochs": 300}),
    (
        "mnist_abadi",
        "abadi's settings, ε by its moments accountant",
        2.0,
        {
            "noise_multiplier": 4.0,
            "pca_noise_multiplier": 7.0,
            "clip_norm": 4.0,
            "batch_size": 600,
            "lr": 0.1,
            "lr_decay": 0.52,
            "lr_decay_epochs": 10,
            "momentum": 0.0,
        },
    ),
    ("mnist_paper_and_code", "BN-LeNet-5, the same, 128 public images as in v2", 0.1, {"public_examples": 128}),
    (
        "mnist_spectrum",
        "p = 1/2 in 4 bands, amplified",
        1.0,
        {"noise_power": 0.5, "noise_bands": 4, "clip_norm": 0.5, "batch_size": 1000},
    ),
    ("agnews_si_dpsgd", "DPSGD (BiLSTM-DL)", 3.0, {"clip_norm": 0.5, "batch_size": 512}),
    ("agnews_noise_choices", "BiLSTM-DL, no noise on the dense layer", 1.0, {"weight_noise_on": "lstm"}),
    (
        "cifar10_dpsgd_bn",
        "BN-VGG, each example with public",
        4.0,
        {"statistics": "per_example", "pretraining_epochs": 100, "epochs": 40},
    ),
    ("cifar10_dpsgd_bn", "LN-TF-tutorial, as short", None, {"epochs": 30}),
    (
        "cifar10_si_dpsgd",
        "DPSGD (TF-tutorial), from scratch",
        1.0,
        {"activation": "tanh", "batch_size": 1024, "clip_norm": 0.5},
    ),
    ("cifar10_si_dpsgd", "SI-DPSGD (VGG-16)", None, {"norm": "batch", "test_statistics": "running"}),
    (
        "cifar10_si_dpsgd_statistics",
        "VGG-16, gradients through them",
        None,
        {"noise_multiplier": 0.0, "clip_norm": 2.5},
    ),
]


@pytest.mark.parametrize(("name", "row", "column", "expected"), SETTINGS)
def test_a_cell_has_the_settings_that_its_paper_names(name, row, column, expected):
    table = tables.load(name)
    run = table.cell(row, column, seed=0, tier="paper", **next(iter(table.points(row, column, "paper")), {}))
    assert {field: getattr(run, field) for field in expected} == expected


SEARCHES = [  # of tier cpu: at which ε or σ, how long, and with whose noise
    ("mnist_noise", "LeNet-5", 1.0, {"weight_noise_std": 1.0, "epochs": 3}),
    ("cifar10_noise", "VGG-16", 2.0, {"weight_noise_std": 1.0}),
    ("cifar10_noise", "VGG-16", 0.01, {"weight_noise_std": 0.0}),
    ("bc_equal_epsilon", "BC", 2.0, {"epochs": 8, "validation_examples": 9000}),
    ("agnews_si_dpsgd", "DPSGD (BiLSTM-DL)", 0.05, {"epsilon": 0.1, "epochs": 3}),
    ("agnews_si_dpsgd", "DPSGD (BiLSTM-DL)", 7.0, {"epsilon": 3.0}),
    ("agnews_dp_accountants", "DPSGD (BiLSTM-DL), v1's noise", 0.1, {"accountant": "rdp_2020"}),
    ("cifar10_dpsgd_bn", "GN-VGG", 8.0, {"epsilon": 4.0, "epochs": 4}),
    ("cifar10_dpsgd_bn", "GN-VGG", 2.0, {"epsilon": 4.0}),
    ("cifar10_si_dpsgd", "SI-DPSGD (TF-tutorial)", 8.0, {"epsilon": 2.0}),
    ("cifar10_si_dpsgd", "SI-DPSGD (TF-tutorial)", 2.0, {"epsilon": 2.0}),
    ("cifar10_si_dpsgd", "DPSGD (TF-tutorial), from scratch", 2.0, {"epsilon": 1.0, "epochs": 10}),
    ("mnist_si_dpsgd", "DPSGD (LeNet-5)", 7.0, {"epsilon": 3.0, "epochs": 12}),
    ("mnist_si_dpsgd", "DPSGD (LN-LeNet-5)", 7.0, {"epsilon": 3.0, "epochs": 3}),
    ("mnist_si_dpsgd", "SI-DPSGD (BN-LeNet-5)", 0.5, {"epsilon": 0.05, "epochs": 1}),
    ("mnist_dpsgd_bn", "LN-LeNet-5, as short", 7.0, {"epsilon": 1.0, "epochs": 1}),
    ("mnist_dp_batches", "LeNet-5, large batches", 3.0, {"epsilon": 3.0, "epochs": 3}),
    ("mnist_spectrum", "DPSGD (p = 0)", 8.0, {"epsilon": 3.0, "epochs": 4}),
    ("mnist_spectrum", "DPSGD, amplified", 1.0, {"epsilon": 1.0, "epochs": 2}),
]


@pytest.mark.parametrize(("name", "row", "column", "expected"), SEARCHES)
def test_a_search_is_as_long_and_where_its_table_says(name, row, column, expected):
    table = tables.load(name)
    run = table.tuning(row, column, tier="cpu", **point(table, row, column))
    assert {field: getattr(run, field) for field in expected} == expected


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("name", "like", "rows"),
    [
        ("mnist_dpsgd_bn", "DPSGD (BN-LeNet-5)", ["LN-LeNet-5, as short"]),
        ("cifar10_dpsgd_bn", "DPSGD (BN-TF-tutorial)", ["TF-tutorial, as short", "LN-TF-tutorial, as short"]),
        ("cifar10_dpsgd_bn", "DPSGD (BN-VGG)", ["GN-VGG", "VGG without normalisation, on BN's features"]),
    ],
)
def test_rows_that_batch_norm_is_compared_with_are_trained_and_searched_as_long(name, like, rows, tier):
    table = tables.load(name)
    for row, column in product(rows, table.columns):
        how = {"tier": tier, **point(table, row, column)}
        assert table.cell(row, column, seed=0, **how).epochs == table.cell(like, column, seed=0, **how).epochs
        if column is not None:
            assert table.tuning(row, column, **how).epochs == table.tuning(like, column, **how).epochs


PRINTED = {  # cells, and sums of means and standard errors, weighted by place: none is another's, or elsewhere
    "agnews_dpsgd": (12, 5761.8, 0.0),
    "agnews_noise": (10, 4387.44, 0.0),
    "agnews_si_dpsgd": (28, 31336.92, 0.0),
    "bc_alc_vs_fgc": (2, 159.36, 0.0),
    "bc_batch_size": (4, 478.58, 0.0),
    "bc_clip_norm": (4, 609.64, 0.0),
    "bc_ic_vs_bc": (10, 1301.24, 0.0),
    "bc_noise": (6, 1161.48, 0.0),
    "bc_sgd": (3, 434.91, 0.0),
    "cifar10_dpsgd_bn": (16, 10242.8, 0.0),
    "cifar10_noise": (30, 35645.21, 685.18),
    "cifar10_si_dpsgd": (42, 80393.88, 0.0),
    "mnist_dpsgd_bn": (21, 21501.28, 0.0),
    "mnist_noise": (32, 44476.26, 34.36),
    "mnist_si_dpsgd": (58, 160920.39, 0.0),
}


@pytest.mark.parametrize("name", PRINTED)
def test_every_printed_number_is_in_its_place(name):
    found = list(tables.load(name).printed.values())
    of_means, of_errors = (
        sum(place * (getattr(cell, what) or 0.0) for place, cell in enumerate(found, 1)) for what in ("mean", "stderr")
    )
    assert (len(found), of_means, of_errors) == pytest.approx(PRINTED[name])
