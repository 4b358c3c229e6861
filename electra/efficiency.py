"""The cost of a score: parameters, time, pfs-days by two rules and per point, beside published systems. No torch.

    python -m electra.efficiency RUN --glue GLUE_FOLDER
    python -m electra.efficiency RUN --glue GLUE_FOLDER --hardware v100 --output efficiency.md

This is the efficiency table of rc2020_electra's README. Its pfs-days are those of the hardware: devices x days x peak
x 0.33; the pfs-days of the counted FLOPs have a column of their own. As there, costs are divided by the score as a
fraction: 0.16 pfs-days for 77.0 are 0.21.
"""

import logging
from dataclasses import dataclass
from pathlib import Path

from electra.flops import pfs_days
from electra.io.console import format_seconds, log_plainly
from electra.io.errors import Parser, UserError, run_script
from electra.io.files import write_file
from electra.report.blocks import markdown_table, text_table
from electra.report.runs import RunRecord, read_run
from electra.runtime.hardware import HARDWARE, UTILIZATION, hardware_pfs_days
from electra.tasks.glue.report import read_glue

logger = logging.getLogger("electra.efficiency")

HEADER = (
    *("Model", "Parameters", "Training time and hardware", "pfs-days, hardware", "pfs-days, FLOPs"),
    *("AVG", "GLUE", "pfs-days per AVG", "pfs-days per GLUE"),
)


@dataclass(frozen=True)
class System:
    """One row; None where a value is unknown.

    FLOPs are those of pre-training by the original's count; scores are percent on development sets, `avg` the mean of
    eight tasks, `glue` of nine (with WNLI).
    """

    name: str
    parameters: float | None = None
    days: float | None = None
    devices: int = 1
    hardware: str = ""
    peak_tflops: float | None = None
    flops: float | None = None
    avg: float | None = None
    glue: float | None = None

    def cells(self) -> list[str]:
        cost = None
        if self.days is not None and self.peak_tflops is not None:
            cost = hardware_pfs_days(self.devices, self.days, self.peak_tflops)
        scores = (self.avg, self.glue)
        return [
            self.name,
            "" if self.parameters is None else f"{self.parameters / 1e6:.3g} M",
            "" if self.days is None else f"{_days(self.days)} on {self.devices} x {self.hardware}",
            _number(cost),
            _number(None if self.flops is None else pfs_days(self.flops)),
            *("" if score is None else f"{score:.1f}" for score in scores),
            *(_number(None if cost is None or not score else cost / (score / 100)) for score in scores),
        ]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def _days(days: float) -> str:
    return f"{days:.3g} d" if days >= 1 else f"{24 * days:.3g} h" if days >= 1 / 24 else format_seconds(86400 * days)


PUBLISHED = (
    System("GPT", 110e6, 30.0, 8, "P6000", 12.0, 3.97e19, 77.9, 75.4),
    System("DistilBERT", 67e6, 3.75, 8, "V100", 15.7, None, None, 77.0),
    System("ELECTRA-Small, original", 14e6, 4.0, 1, "V100", 15.7, 1.29e18, 80.4),
    System("ELECTRA-Small, rc2020_electra", 14e6, 3.75, 1, "RTX 3090", 35.6, 1.29e18, 78.8, 76.7),
)
"""https://github.com/cccwam/rc2020_electra, README, Efficiency analysis. FLOPs: google-research/electra,
flops_computation.py. Scores of GPT and DistilBERT are as the source prints them."""
NOTES = (
    f"pfs-days, hardware: devices x days x peak TFLOP/s x {UTILIZATION} / 1000. pfs-days, FLOPs: the original's "
    "count of training FLOPs / 8.64e19. They count different things. Per AVG and per GLUE: the former over the "
    "score as a fraction.",
    "GPT: the source prints 0.17 pfs-days per AVG and 0.18 per GLUE, which do not follow from its own 0.95, "
    "77.9 and 75.4; it writes P600 for P6000",
    "DistilBERT: the source prints 0.21 pfs-days per GLUE, from 0.16, which it had rounded before",
    "rc2020_electra: the source prints 0.03 pfs-days; 3.75 days at 35.6 TFLOP/s and 0.33 are 0.044",
    "rc2020_electra: the source prints AVG 79.2; the mean of its own row is 78.8. Its 0.05 pfs-days per AVG "
    "follow from neither",
)


def system_of_run(
    run: RunRecord, glue: Path | None = None, hardware: str | None = None, peak_tflops: float | None = None
) -> System:
    """The row of a finished run; `glue`: output folder of run_glue.py.

    The peak of a device is `peak_tflops`, else that of `hardware`, else what the run has measured.
    """
    compute = run.metrics.get("compute", {})
    if compute.get("training_seconds") is None:
        why = "; ".join(run.notes) or "a run of a few steps is too short to be timed"
        raise UserError(f"{run.folder} does not say how long it trained ({why}); name a finished run")
    name, measured = compute.get("device", "?"), compute.get("peak_flops_per_second")
    if hardware in HARDWARE:
        name, measured = HARDWARE[hardware].name, 1e12 * HARDWARE[hardware].peak_tflops
    peak = peak_tflops if peak_tflops or measured is None else measured / 1e12
    if peak is None:
        raise UserError(f"{run.folder} has no peak rate of its hardware; pass --hardware or --peak_tflops")
    avg = score = None
    if glue is not None:
        summaries = read_glue(glue)
        if len(summaries) > 1:
            names = ", ".join(summary.name for summary in summaries)
            raise UserError(f"{glue} holds results of several models ({names}); name a folder with one")
        avg, score = (summaries[0].averages[name].value for name in ("AVG", "GLUE"))
    return System(
        run.name,
        run.plan.get("discriminator_parameters"),
        compute["training_seconds"] / 86400,
        compute.get("devices", 1),
        name,
        peak,
        compute.get("google_flops", run.plan.get("google_flops")),
        None if avg is None else 100 * avg,
        None if score is None else 100 * score,
    )


def main(argv: list[str] | None = None) -> None:
    parser = Parser(
        prog="python -m electra.efficiency", description="Write the efficiency table of pre-training runs."
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py")
    parser.add_argument(
        "--glue", nargs="+", type=Path, default=[], metavar="FOLDER", help="folder of run_glue.py, one for each RUN"
    )
    parser.add_argument(
        "--hardware",
        choices=[*HARDWARE, "cpu"],
        help="use its peak rate; default and cpu: the peak that the run measured",
    )
    parser.add_argument("--peak_tflops", type=float, help="peak of one device, TFLOP/s")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: efficiency.md in the first RUN")
    arguments = parser.parse_args(argv)
    log_plainly()
    if arguments.glue and len(arguments.glue) != len(arguments.runs):
        raise UserError(f"{len(arguments.glue)} --glue for {len(arguments.runs)} runs; pass one for each, in order")
    if arguments.peak_tflops is not None and not arguments.peak_tflops > 0:
        raise UserError(f"--peak_tflops {arguments.peak_tflops} is not possible: it must be a number above 0")
    folders = arguments.glue or [None] * len(arguments.runs)
    own = [
        system_of_run(read_run(run), glue, arguments.hardware, arguments.peak_tflops)
        for run, glue in zip(arguments.runs, folders, strict=True)
    ]
    rows = [system.cells() for system in (*own, *PUBLISHED)]
    output = arguments.output or arguments.runs[0] / "efficiency.md"
    text = "\n\n".join(["# Efficiency", markdown_table(HEADER, rows), *(f"- {note}" for note in NOTES)]) + "\n"
    write_file(text.encode(errors="backslashreplace"), output)
    logger.info("%s\n\n%s\n\n%s", text_table(HEADER, rows), "\n".join(NOTES), output)


if __name__ == "__main__":
    run_script(main)
