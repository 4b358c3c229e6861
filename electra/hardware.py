"""Peaks of processors, and the pfs-days that follow from hardware and time alone. Data, no torch.

The rule is OpenAI's ("AI and Compute", 2018, appendix): devices x days x peak x utilization, with 0.33 where it is
not known. It counts what the hardware could have done, not what the model needed: its pfs-days are no FLOPs, and stand
in a column of their own. rc2020_electra used it with peaks in float32.
"""

from dataclasses import dataclass

UTILIZATION = 0.33


@dataclass(frozen=True)
class Hardware:
    """A processor and the highest rate its maker gives, dense matrices, in the precision that is named."""

    name: str
    peak_tflops: float
    precision: str


HARDWARE = {
    "p6000": Hardware("P6000", 12.0, "float32"),
    "t4": Hardware("T4", 8.1, "float32"),
    "v100": Hardware("V100", 15.7, "float32"),
    "rtx3090": Hardware("RTX 3090", 35.6, "float32"),
    "rtx4090": Hardware("RTX 4090", 82.6, "float32"),
    "a100": Hardware("A100", 312.0, "bfloat16"),
    "h100": Hardware("H100 SXM", 989.0, "bfloat16"),
    "h200": Hardware("H200 SXM", 989.0, "bfloat16"),
}
"""By the name of --hardware; from the makers' data sheets, P6000 and RTX 3090 as rc2020_electra has them."""


def hardware_pfs_days(devices: float, days: float, peak_tflops: float, utilization: float = UTILIZATION) -> float:
    """Petaflop/s-days by the hardware: 8 V100 for 3.75 days are 0.155.

    Args:
        devices: how many.
        days: of training.
        peak_tflops: of one device, TFLOP/s.
        utilization: share of the peak that is assumed.
    """
    return devices * days * peak_tflops * utilization / 1000
