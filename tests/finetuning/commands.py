"""The command line that tiny runs of fine-tuning share."""


def file_flags(folder, train, validation, **options):
    """Return the command line of a run below `folder` on two of its files."""
    return tiny_flags(folder, **{"train_file": folder / train, "validation_file": folder / validation, **options})


def tiny_flags(folder, **options):
    """Return the command line of a run below `folder`: its encoder/, one epoch, two seeds; None is no option."""
    values = {
        "pretrain_path": folder / "encoder",
        "output_dir": folder / "output",
        "experiment_name": "run",
        "num_seeds": 2,
        "num_train_epochs": 1,
        "per_device_train_batch_size": 8,
        "disable_tqdm": True,
        **options,
    }
    words = []
    for name, value in values.items():
        if isinstance(value, list):
            words += [f"--{name}", *map(str, value)]
        elif value is not None:
            words.append(f"--{name}={value}")
    return words
