"""Write the networks of a finished run as the package carries them: in bfloat16, and without folders of this machine.

    python -m runs.package_network output/tiny_en electra/networks/tiny_en --language en

FOLDER gets discriminator/ and generator/, which transformers opens in float32, and config.yaml, the options of the
run. Its other files stay: card and licence.
"""

import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from electra.base.checkpoints import write_manifest
from electra.base.command_line import write_yaml
from electra.base.errors import run_script
from electra.base.files import OPTIONS_TITLE, read_json, read_options
from electra.core.errors import UserError

FOLDERS = ("cache_dir", "tokenizer_path", "output_dir")
"""Options that name folders of the machine on which the run was made."""
TEXTS = ("train_file", "validation_file")
"""Options that name files of text, of which the names alone are kept."""


def package_network(source: Path, target: Path, language: str) -> None:
    """Write a folder of a network: config.json, weights in bfloat16, and the tokenizer with its language."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    config = read_json(source / "config.json") | {"dtype": "float32"}  # or transformers would compute in bfloat16
    write_text(config, target / "config.json")
    weights = {name: weight.to(torch.bfloat16) for name, weight in load_file(source / "model.safetensors").items()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")
    write_text(read_json(source / "tokenizer_config.json") | {"language": language}, target / "tokenizer_config.json")
    write_manifest(target)


def write_text(values: dict[str, object], path: Path) -> None:
    path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the networks of a run as the package carries them.")
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of a finished run")
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the networks in the package")
    parser.add_argument("--language", required=True, help="language of the text, such as en")
    arguments = parser.parse_args()
    options = read_options(arguments.run)
    if options is None:
        raise UserError(f"{arguments.run} has no config.yaml; name the folder of a run")
    for role in ("discriminator", "generator"):
        package_network(arguments.run / role, arguments.folder / role, arguments.language)
    kept = {name: value for name, value in options.items() if name not in FOLDERS}
    kept |= {name: [Path(path).name for path in kept[name]] for name in TEXTS if name in kept}
    write_yaml(
        kept, arguments.folder / "config.yaml", f"{OPTIONS_TITLE} of the run; its texts are not in the package."
    )


if __name__ == "__main__":
    run_script(main)
