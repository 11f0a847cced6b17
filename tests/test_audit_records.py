"""Privacy blocks computed again: what was measured stays, what is proven and audited is today's."""

import json
import re
import runpy
import sys
from dataclasses import asdict, replace
from types import SimpleNamespace

import pytest
import torch
from conftest import make_run
from test_methods import private

from lib import data
from lib.audit import __main__ as audit_command
from lib.audit import canaries, records
from lib.audit.float32_noise import cut_off
from lib.methods._budget import budget
from lib.record import validate
from lib.sampling import Sampler
from lib.store import RESULTS, Store, StoreError
from lib.train import Training, train

PRIVATE = {"optimizer": "sgd", "sampler": "poisson", "clip_norm": 1.0, "batch_size": 144, "lr": 0.5}
RUNS = {
    "dpsgd, noise from ε": PRIVATE | {"method": "dpsgd", "epsilon": 2.0},
    "dpsgd, steps from ε": PRIVATE | {"method": "dpsgd", "epsilon": 2.0, "noise_multiplier": 1.0, "epochs": 9},
    "dpsgd, several views": PRIVATE | {"method": "dpsgd", "epsilon": 2.0, "augmentation": "shift", "augmult": 2},
    "si_dpsgd": PRIVATE | {"method": "si_dpsgd", "noise_multiplier": 2.0, "accountant": "rdp_2020"},
    "individual clipping": {
        **PRIVATE,
        **{"method": "batch_clipping", "mini_set_size": 1, "epsilon": 2.0},
        **{"sampler": "without_replacement", "neighbouring_relation": "replace_one"},
    },
}


@pytest.fixture(autouse=True)
def fewer(monkeypatch):
    monkeypatch.setattr(records, "CANARIES", 300)
    monkeypatch.setattr(records, "OF_ONE_RUN", 200)


@pytest.mark.parametrize("changes", RUNS.values(), ids=RUNS)
def test_a_fresh_record_gets_its_audit_and_nothing_else(changes):
    record = train(make_run(**changes))
    block = records.block(record, {})
    assert block | {"audited": None, "claimed": None, "proven": None} == record["privacy"] | {
        "claimed": None,
        "proven": None,
    }
    assert list(block["claimed"].values()) == pytest.approx(list(record["privacy"]["claimed"].values()), rel=1e-6)
    assert 0 <= block["audited"]["epsilon"] <= block["proven"]["epsilon"]
    assert block["audited"]["confidence"] == canaries.bounds.CONFIDENCE
    assert validate(record | {"privacy": block})


def test_a_mechanism_is_attacked_once(monkeypatch):
    """Seed, step size and network are none of the mechanism; noise and number of examples are."""
    first = train(make_run(**RUNS["si_dpsgd"]))
    known = {}
    first["privacy"] = records.block(first, known)
    assert list(known.values()) == [first["privacy"]["audited"]]
    assert records.stored([first, train(make_run())]) == known
    monkeypatch.setattr(records.canaries, "attack", None)
    like = train(make_run(**RUNS["si_dpsgd"] | {"seed": 1, "lr": 0.1, "model": "lenet5"}))
    assert records.block(like, known)["audited"] == first["privacy"]["audited"]
    for change in ({"noise_multiplier": 3.0}, {"validation_examples": 297}):
        other = train(make_run(**RUNS["si_dpsgd"] | change))
        with pytest.raises(TypeError):
            records.block(other, known)
    monkeypatch.setattr(records, "CANARIES", 200)
    assert records.stored([first]) == {}


UNATTACKED = {  # another value of each field that no attack is to depend on, with what it needs
    "dataset": {"dataset": "mnist"},
    "model": {"model": "lenet_300_100"},
    "activation": {"activation": "tanh", "model": "lenet_300_100"},
    "lr": {"lr": 0.25},
    "validation_examples": {"validation_examples": 297},
    "augmentation": {"augmentation": "shift"},
    "augmult": {"augmentation": "shift", "augmult": 4},
    "input_scale": {"input_scale": "standardised"},
}


def test_what_makes_no_other_mechanism_is_the_seed_and_what_is_tried_below():
    assert set(records.ANY) == {"seed", *UNATTACKED}


@pytest.mark.parametrize("field", UNATTACKED)
def test_no_score_depends_on_what_makes_no_other_mechanism(field):
    """But for the step size, which scales them all."""
    run = replace(make_run(**RUNS["dpsgd, noise from ε"]), **records.ANY)
    scores = [
        canaries.attack(replace(run, **changes), examples=300, canaries=200).scores / changes.get("lr", run.lr)
        for changes in ({}, UNATTACKED[field])
    ]
    assert scores[1] == pytest.approx(scores[0], rel=1e-3, abs=1e-6)
    assert abs(scores[0]).max() > 0.01


def test_what_is_attacked_has_the_steps_of_the_run_with_a_private_pca():
    """A part of the budget is the PCA's: without it more steps would keep to ε."""
    run = make_run(**RUNS["dpsgd, steps from ε"] | {"pca_noise_multiplier": 4.0})
    attacked = replace(run, **records.ANY)
    of_run, of_attack = (budget(r, Sampler(r.sampler, 1437, r.batch_size)) for r in (run, attacked))
    assert of_run.steps == of_attack.steps < run.epochs * of_run.sampler.steps_per_epoch


def test_an_older_proof_is_replaced():
    record = train(make_run(**RUNS["si_dpsgd"]))
    today = record["privacy"]["proven"]
    record["privacy"]["proven"] = {"epsilon": None, "assumes": "", "why": "nobody knew"}
    proven = records.block(record, {})["proven"]
    assert proven["assumes"].startswith(today["assumes"] + "; the code of commit ")
    assert proven == today | {"assumes": proven["assumes"]}


def test_noise_of_float32_and_of_one_draw_is_told_with_what_is_known_of_its_cost():
    """Of older records; where noise hides sums of steps, or parts of a gradient, not all of it in numbers."""
    told, whole = [], RUNS["dpsgd, noise from ε"]
    for changes in (whole, RUNS["si_dpsgd"], whole | {"clipped": "layer"}):
        record = train(make_run(**changes))
        assert records.block(record, {})["proven"]["assumes"].endswith("counts like today's")
        flags = record["env"]["flags"]
        del flags["noise"]
        flags["draws"] = 2
        assert records.block(record, {})["proven"]["assumes"].endswith(
            "counts like today's, but for noise that was added in float32: what its last digits tell is not counted"
        )
        for flags["draws"], flags["whole_tail"] in ((1, True), (1, False)):
            told.append(records.block(record, {})["proven"]["assumes"].partition(" for noise of one float32 draw")[2])
    training = Training(make_run(**RUNS["dpsgd, noise from ε"]), torch.device("cpu"))
    training.attach()
    cost = cut_off(training.method.budget.events, sum(p.numel() for p in training.model.parameters()))
    spiked = "its density, which has spikes from 3 of them on, is not counted"
    until, cut = f" up to 4 standard deviations: {spiked}", ", cut off at 5.77 standard deviations"
    assert told == [
        *(until, f"{cut}, which adds at least {records._rounded_down(cost)} to δ: {spiked}"),
        *(until, f"{cut}: what that adds to δ and {spiked}") * 2,
    ]
    assert [records._rounded_down(value) for value in (1.99e-4, 0.01, 9.6e-3)] == ["1e-04", "1e-02", "9e-03"]


def of_then(**changes) -> str:
    """What is told of a run whose noise was one draw, with its tail cut off."""
    training = Training(make_run(**RUNS["dpsgd, noise from ε"] | changes), torch.device("cpu"))
    training.attach()
    flags = {"draws": 1, "whole_tail": False}
    env = {"git_commit": 40 * "0", "dirty": True, "flags": flags, "started": "2026-11-01T00:00:00+00:00"}
    return records._of_then({"env": env}, training)


@pytest.mark.parametrize(
    "changes",
    [
        {"norm": "noised_batch_without_affine", "statistics_share": 0.2, "statistics_clip_norm": 1.0},
        {
            **{"method": "adaptive_layerwise", "gradient_norm_examples": 20, "public_examples": 100},
            **{"sampler": "without_replacement", "neighbouring_relation": "replace_one", "mini_set_size": 144},
        },
    ],
    ids=["statistics", "layers"],
)
def test_of_parts_with_a_draw_each_no_cost_in_numbers_is_told(changes):
    assert "5.77 standard deviations: what that adds to δ and its density" in of_then(**changes)


def test_the_draws_of_a_private_pca_are_none_of_float32(monkeypatch):
    counted = []
    monkeypatch.setattr(records, "cut_off", lambda events, _: counted.append(len(events)) or 1e-6)
    assert "adds at least 1e-06 to δ" in of_then(model="pca_1000", pca_noise_multiplier=4.0)
    assert counted == [1]


def test_a_commit_with_changes_that_it_has_not_says_so():
    assert "; the code of commit 0000000+, which trained it" in of_then()


@pytest.mark.parametrize(
    ("examples", "canaries", "sampler"), [(1437, 300, "poisson"), (250, 250, "poisson"), (1437, 200, "shuffled")]
)
def test_there_are_no_more_canaries_than_examples_nor_than_the_test_can_use(examples, canaries, sampler, monkeypatch):
    asked = []
    attack = lambda run, **how: asked.append(how) or SimpleNamespace(epsilon=lambda: 0.5)  # noqa: E731
    monkeypatch.setattr(records.canaries, "attack", attack)
    assert records.audited(private(sampler=sampler, accountant="gdp"), examples)["epsilon"] == 0.5
    assert asked == [{"examples": examples, "canaries": canaries, "released": "transcript"}]


@pytest.mark.parametrize(("started", "cancelled"), [("2026-11-22T13:39:30+00:00", True), ("2026-11-23", False)])
def test_norms_of_then_are_told(started, cancelled):
    record = train(make_run(**RUNS["dpsgd, noise from ε"]))
    record["env"]["started"], record["env"]["flags"]["noise"] = started, "float32"
    assumed = records.block(record, {})["proven"]["assumes"]
    assert "but for norms that may have come out too small, of long vectors by up to 1e-3" in assumed
    assert ("of positions that cancel by more" in assumed) == cancelled


def test_every_proof_of_a_run_whose_noise_was_one_draw_says_so():
    """README tells the largest cost where ε is 8 or less."""
    costs = []
    for _, record in Store().filed():
        proven = record["privacy"]["proven"]
        flags = record["env"]["flags"]
        if proven and proven["epsilon"] is not None and flags.get("draws") != 2 and flags.get("noise") != "float64":
            assert "has spikes from 3 of them on" in proven["assumes"], record["id"]
            told = re.search(r"adds at least (\S+) to δ", proven["assumes"])
            costs += [float(told[1])] if told and proven["epsilon"] < 8.01 else []
    digit, exponent = f"{max(costs):.0e}".split("e-")
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    assert f"up to {digit}·10{'⁻' + '⁰¹²³⁴⁵⁶⁷⁸⁹'[int(exponent)]} where ε is 8 or less" in readme


def test_what_differs_by_the_rounding_of_another_machine_stays_and_words_are_todays():
    record = train(make_run(**RUNS["dpsgd, noise from ε"]))
    record["privacy"] = today = records.block(record, {})
    there = today | {"claimed": {"pld": today["claimed"]["pld"] * (1 + 1e-9)}}
    there["proven"] = today["proven"] | {"epsilon": today["proven"]["epsilon"] * (1 - 1e-9), "why": "sensitivity 3C"}
    block = records.block(record | {"privacy": there}, records.stored([record]))
    assert block == there | {"proven": there["proven"] | {"why": today["proven"]["why"]}}
    there["proven"]["epsilon"] *= 1.001
    assert records.block(record | {"privacy": there}, records.stored([record]))["proven"] == today["proven"]


def test_what_the_canaries_do_not_fit_is_not_audited():
    assert records.block(train(make_run()), {})["audited"] is None
    clipped = PRIVATE | {"method": "batch_clipping", "mini_set_size": 144, "noise_multiplier": 2.0}
    clipped |= {"sampler": "without_replacement", "neighbouring_relation": "replace_one"}
    assert records.block(train(make_run(**clipped)), {})["audited"] is None


def test_batches_drawn_with_replacement_are_not_audited_though_they_once_were():
    """An absent canary's place stays empty, which is two examples changed where places matter."""
    drawn = {"sampler": "with_replacement", "epsilon": None, "noise_multiplier": 1.0}
    record = train(make_run(**RUNS["dpsgd, noise from ε"] | drawn))
    record["privacy"]["audited"] = {"epsilon": 1.0, "confidence": 0.95, "attack": records.attack(private())}
    assert records.block(record, records.stored([record]))["audited"] is None


def test_a_record_whose_claim_cannot_be_made_again_is_refused():
    record = train(make_run(**RUNS["si_dpsgd"]))
    record["privacy"]["claimed"] = {"rdp_2020": 0.05}
    with pytest.raises(StoreError, match=rf"{record['id']}: expected 18 steps and a claim of .*0.05.*; got 18"):
        records.block(record, {})


def test_amending_changes_the_privacy_block_alone(tmp_path):
    record = train(make_run())
    path = Store(tmp_path, read_only=False).write("a_table", record)
    store = Store(tmp_path, read_only=False)
    store.amend(record, record["privacy"] | {"audited": {"epsilon": 0.0, "confidence": 0.95, "attack": "made up"}})
    stored = json.loads(path.read_text())
    assert stored["privacy"]["audited"]["attack"] == "made up"
    assert {k: v for k, v in stored.items() if k != "privacy"} == {k: v for k, v in record.items() if k != "privacy"}
    with pytest.raises(ValueError, match="expected privacy to say 'claimed'"):
        store.amend(record, {k: v for k, v in record["privacy"].items() if k != "claimed"})
    assert json.loads(path.read_text()) == stored
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["records", "mnist"], "error: unknown table 'mnist'; expected one of agnews_dp_accountants"),
        (
            ["sensitivity", "mnist_noise"],
            "sensitivity: expected neither tables nor --again, which are for records; got mnist_noise",
        ),
        (["v1", "--again"], "v1: expected neither tables nor --again, which are for records; got --again"),
        (["everything"], "invalid choice: 'everything'"),
    ],
)
def test_the_command_refuses_what_there_is_not(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lib.audit", *arguments])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(audit_command.__file__, run_name="__main__")
    assert stopped.value.code
    assert message in f"{stopped.value.code}{capsys.readouterr().err}"


@pytest.mark.parametrize("name", audit_command.MEASURED)
def test_every_measurement_names_the_command_that_makes_it(name):
    """As the command itself takes it: without the name it measures nothing."""
    page = sys.modules[audit_command.MEASURED[name].__module__].__doc__
    assert [line.strip() for line in page.splitlines() if "python -m" in line] == [f"python -m lib.audit {name}"]


def test_the_command_attacks_again_if_it_is_told_to(tmp_path, monkeypatch):
    record = train(make_run(**RUNS["si_dpsgd"]))
    store = Store(tmp_path, read_only=False)
    store.write("mnist_spectrum", record)
    monkeypatch.setattr(audit_command.store, "Store", lambda **how: Store(tmp_path, **how))
    audited = records.block(record, {})["audited"]
    store.amend(record, record["privacy"] | {"audited": audited | {"epsilon": 0.0}})
    found = {}
    for again in (False, True):
        audit_command._amend(["mnist_spectrum"], again)
        found[again] = Store(tmp_path).get(make_run(**RUNS["si_dpsgd"]))["privacy"]["audited"]["epsilon"]
    assert found == {False: 0.0, True: audited["epsilon"]}
    assert audited["epsilon"] > 0


def test_a_record_is_proven_without_the_features_it_was_trained_on(tmp_path, monkeypatch):
    """They are made again only if a run that builds on them is trained, which may be on another machine."""
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path / "here"))
    pretrained = {"pretrained_on": "stripes_rgb", "pretraining_epochs": 1, "dataset": "digits_rgb"}
    pretrained |= {"model": "tf_tutorial", "augmentation": "crop_24_and_flip", "pretraining_norm": "batch"}
    public = {"norm": "public_batch_without_affine", "public_dataset": "stripes_rgb", "public_examples": 4}
    run = make_run(**(RUNS["dpsgd, noise from ε"] | pretrained | public), statistics="per_example", epochs=1)
    record = train(run)
    monkeypatch.setenv(data.FOLDER_VARIABLE, str(tmp_path / "elsewhere"))
    proven = records.block(record, {})["proven"]
    assert proven == record["privacy"]["proven"] | {"assumes": proven["assumes"]}
    assert "stripes_rgb, on which the convolutions were pretrained" in record["privacy"]["proven"]["assumes"]


MECHANISM = {
    "method": "si_dpsgd",
    "delta": 1e-6,
    "neighbouring_relation": "replace_one",
    "sampler": "fixed_order",
    "lr_schedule": "linear",
    "momentum": 0.5,
    "clip_norm": 0.5,
    "clip_norm_decay": 0.9,
    "noise_multiplier_decay": 0.9,
    "epochs": 3,
    "batch_size": 32,
}


def test_whatever_the_attack_depends_on_is_of_the_mechanism():
    run, found = private(), set()
    for name, value in ({"seed": 1} | MECHANISM).items():
        changed = asdict(run) | {"epsilon": None, name: value}
        if name == "sampler":
            changed["accountant"] = "gdp"
        privacy = {"noise_multiplier": 1.0, "neighbouring_relation": "", "sampling_prob": 0.1}
        found.add(records._mechanism({"run": changed, "privacy": privacy}))
    assert len(found) == 1 + len(MECHANISM)


def test_an_attack_is_known_whether_the_other_seed_was_attacked_or_not(monkeypatch):
    monkeypatch.undo()  # stored ones have as many canaries as they should
    attacked = next(record for _, record in Store(RESULTS).filed() if record["privacy"]["audited"])
    fresh = attacked | {"run": attacked["run"] | {"seed": 99}, "privacy": attacked["privacy"] | {"audited": None}}
    assert attacked["privacy"]["audited"]["attack"] == records.attack(records._run(attacked))
    for filed in ([attacked, fresh], [fresh, attacked]):
        assert list(records.stored(filed).values()) == [attacked["privacy"]["audited"]]


def test_a_step_more_is_another_run():
    """Whose ε the tolerance of a claim would not tell."""
    record = train(make_run(**RUNS["si_dpsgd"]))
    record["privacy"]["steps"] += 1
    with pytest.raises(StoreError, match=r"expected 19 steps .*; got 18"):
        records.block(record, {})


@pytest.mark.parametrize("factor", [1 / 1.01, 1.01])
def test_a_claim_that_differs_either_way_is_refused(factor):
    then = {"pld": 2.0}
    assert records._alike({"pld": 2.0}, then)
    assert not records._alike({"pld": 2.0 * factor}, then)
    assert not records._alike({"pld": None}, then)


def test_without_noise_there_is_nothing_to_attack():
    assert not records._attacked(private(noise_multiplier=0.0))
    assert records._attacked(private())
