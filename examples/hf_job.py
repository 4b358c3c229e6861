# /// script
# requires-python = ">=3.11"
# dependencies = ["electra @ git+https://github.com/OWNER/REPO"]
# ///
"""Pre-train an ELECTRA in a job of the Hugging Face Hub, and push both networks.

    hf jobs uv run --flavor a10g-small --secrets HF_TOKEN examples/hf_job.py \
        --dataset_name me/my_text --model_size modern-small --budget 2h --hub_model_id me/my-electra
    uv run examples/hf_job.py --max_steps 20        # here, on the built-in text

All options are those of `electra pretrain`. With a token in HF_TOKEN, the networks are pushed to the Hub, as private
repositories unless the options say otherwise. A job that is started again begins anew, because its disk is new.
"""

import os
import sys

from electra.tools.commands import run


def main() -> None:
    """Run `electra pretrain` with the job's options, with the upload where there is a token."""
    sys.argv[1:] = with_upload(sys.argv[1:], has_token=bool(os.environ.get("HF_TOKEN")))
    run("pretrain")


def with_upload(words: list[str], *, has_token: bool) -> list[str]:
    """Return the options of the job behind those of an upload, because the last of two values of an option counts."""
    return ["--push_to_hub", "--hub_private_repo", *words] if has_token else words


if __name__ == "__main__":
    main()
