"""The cost of a GLUE score beside published systems: the efficiency table of rc2020_electra's README. No torch.

Its pfs-days are those of the hardware: devices x days x peak rate x .33; the pfs-days of the counted FLOPs have a
column of their own. As there, costs are divided by the score as a fraction: .155 pfs-days for 77.0 are .202.
"""

from collections.abc import Mapping

from electra.flops import pfs_days
from electra.io.console import format_seconds
from electra.report.blocks import Blocks, Heading, Items, Table
from electra.report.evaluation import percent
from electra.report.runs import RunRecord

PEAK_UTILIZATION = 0.33
"""Share of the peak rate that OpenAI's rule assumes ("AI and Compute", 2018, appendix)."""
HEADER = (
    *("Model", "Parameters", "Training time and hardware", "pfs-days, hardware", "pfs-days, FLOPs"),
    *("AVG", "GLUE", "pfs-days per AVG", "pfs-days per GLUE"),
)
PUBLISHED_COSTS = (
    ("GPT", "110 M", "30 d on 8 x P6000", "0.950", "0.459", "77.9", "75.4", "1.220", "1.260"),
    ("DistilBERT", "67 M", "3.75 d on 8 x V100", "0.155", "", "", "77.0", "", "0.202"),
    ("ELECTRA-Small, original", "14 M", "4 d on 1 x V100", "0.021", "0.015", "80.4", "", "0.026", ""),
    ("ELECTRA-Small, rc2020_electra", "14 M", "3.75 d on 1 x RTX 3090",
     "0.044", "0.015", "78.8", "76.7", "0.056", "0.057"),
)  # fmt: skip
"""https://github.com/cccwam/rc2020_electra, README, Efficiency analysis; computed anew from its times, the
float32 peak rates of the data sheets (12.0, 15.7, 35.6 TFLOP/s) and its scores. FLOPs: google-research/electra,
flops_computation.py."""
NOTES = (
    "pfs-days, hardware: devices x days x peak TFLOP/s x 0.33 / 1000; for this run the peak that it measured. "
    "pfs-days, FLOPs: the original's count of training FLOPs / 8.64e19. They count different things. Per AVG and per "
    "GLUE: the former over the score as a fraction.",
    "GPT: the source prints 0.17 pfs-days per AVG and 0.18 per GLUE, which do not follow from its own 0.95, 77.9 and "
    "75.4; it writes P600 for P6000.",
    "DistilBERT: the source prints 0.21 pfs-days per GLUE, from 0.16, which it had rounded before.",
    "rc2020_electra: the source prints 0.03 pfs-days; 3.75 days at 35.6 TFLOP/s and 0.33 are 0.044. It prints AVG "
    "79.2; the mean of its own row is 78.8. Its 0.05 pfs-days per AVG follow from neither.",
)


def efficiency_section(run: RunRecord, averages: Mapping[str, float | None]) -> Blocks:
    """Put the row of a run above the published ones; empty if the run does not say how long it trained.

    `averages` are AVG and GLUE as fractions, None if a task is missing.
    """
    compute = run.compute
    needed = {"training_seconds", "peak_flops_per_second", "devices", "device", "google_flops"}
    if not needed <= compute.keys() or "discriminator_parameters" not in run.plan:
        return []
    seconds = compute["training_seconds"]
    devices = compute["devices"]
    cost = pfs_days(devices * seconds * compute["peak_flops_per_second"] * PEAK_UTILIZATION)
    scores = [averages["AVG"], averages["GLUE"]]
    row = [
        run.name,
        f"{run.plan['discriminator_parameters'] / 1e6:.3g} M",
        f"{format_seconds(seconds)} on {devices} x {compute['device']}",
        _number(cost),
        _number(pfs_days(compute["google_flops"])),
        *(percent(score, empty="") for score in scores),
        *("" if not score else _number(cost / score) for score in scores),
    ]
    return [Heading("Cost of the score"), Table(HEADER, [row, *PUBLISHED_COSTS]), Items(NOTES)]


def _number(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"
