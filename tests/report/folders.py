"""Run folders by hand: logs of which every number is known."""

import json

import yaml


def training_logs(steps, **columns):
    """Return a line of the training log for each step; `columns` have a value for each of them."""
    return [
        {
            "step": step,
            "epoch": step / 100,
            "loss": 30.0 - step / 10,
            "generator_loss": 6.0 - step / 100,
            "discriminator_loss": 0.4,
            "replaced_rate": 0.14,
            "learning_rate": 1e-3 / (1 + step),
            "tokens_seen": step * 64,
            "tokens_per_second": 1000,
            "eta_seconds": 5,
            **{name: values[number] for name, values in columns.items()},
        }
        for number, step in enumerate(steps)
    ]


def evaluation_logs(steps):
    """Return a line of an evaluation for each step, in which each metric has a value of its own."""
    names = ("generator_loss", "masked_accuracy", "sampled_accuracy", "discriminator_loss", "discriminator_auc")
    names += ("discriminator_accuracy", "discriminator_precision", "discriminator_recall", "replaced_rate")
    names += ("masked_accuracy_mask_token",)
    return [
        {
            "step": step,
            "eval_loss": 31.0 - step / 10,
            "eval_tokens": 640.0,
            "eval_runtime": 0.5,
            "eval_samples_per_second": 80.0,
            **{f"eval_{name}": number / 10 + step / 1000 for number, name in enumerate(names, start=1)},
        }
        for step in steps
    ]


def write_state(folder, logs):
    """Write trainer_state.json as Trainer does; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    step = logs[-1].get("step", 0) if logs else 0
    state = {"global_step": step, "max_steps": 100, "log_history": logs}
    (folder / "trainer_state.json").write_text(json.dumps(state))
    return folder


def logs_until(step):
    """Return training logs every ten steps and evaluations every twenty-five, in Trainer's order."""
    lines = training_logs(list(range(10, step + 1, 10))) + evaluation_logs(list(range(0, step + 1, 25)))
    return sorted(lines, key=lambda logs: (logs["step"], "eval_loss" in logs))


PLAN = {"objective": "electra", "steps": 100, "flops": 2.0e11, "google_flops": 3.0e11}
PLAN |= {"discriminator_shape": "3 layers", "discriminator_parameters": 1000, "generator_parameters": 500}
PLAN |= {"documents": 7, "corpus_tokens": 900, "batch_size": 8, "max_length": 16, "sources": [{"name": "a/books.txt"}]}
GENERATOR_VERDICT = {
    "text": "The generator's accuracy is 7.0 %: not clearly above token frequencies (5.0)",
    "is_good": False,
}
VERDICT = "step 100: the discriminator has started to learn"
HELD_OUT = {
    "untrained": {"generator_loss": 7.5, "discriminator_auc": 0.5},
    "frequencies": {"generator_loss_mask_token": 6.25, "masked_accuracy_mask_token": 0.05, "discriminator_auc": 0.55},
    "trained": {"generator_loss": 0.2, "masked_accuracy_mask_token": 0.07, "discriminator_auc": 0.6},
}
COMPUTE = {"tokens": 6400, "training_seconds": 86400.0, "device": "a computer", "devices": 2}
COMPUTE |= {"peak_flops_per_second": 5e11, "google_flops": 8.64e19}


def finished_run(folder, **options):
    """Write a run that has ended, with these options and all files but its networks; return the folder."""
    write_state(folder, logs_until(100))
    metrics = {"verdict": VERDICT, "generator_verdict": GENERATOR_VERDICT, "held_out": HELD_OUT}
    metrics |= {"plan": PLAN, "compute": COMPUTE}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "config.yaml").write_text(yaml.safe_dump({"learning_rate": 1e-3, "hub_token": "hf_abc", **options}))
    return folder
