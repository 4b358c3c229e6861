"""Held-out evaluations of real runs, seed 42: what the detector of a collapse is tested on.

Where a run's log gave neither recall nor replaced rate, they were filled in: recall 0, and the share of tokens that
was chosen times what glue_cpu's generator replaced of its own, .97 at first and .845 with a settled generator, or what
lies .006 nats above the discriminator's loss if that is less, as for every living discriminator before its start.
"""

from dataclasses import dataclass, replace
from typing import Any

from electra.pretraining.callbacks.health import Evaluation, evaluations_of


@dataclass(frozen=True)
class Curve:
    """Rows: step, generator loss, discriminator loss, AUC, recall, replaced rate."""

    vocab_size: int
    tokens_per_step: int
    warmup_steps: int
    rows: tuple[tuple[float, ...], ...]
    eval_tokens: float = 128_000

    def log_history(self) -> list[dict[str, Any]]:
        """As `TrainerState` keeps it: a training log and an evaluation at every step of the table."""
        history: list[dict[str, Any]] = []
        names = ("generator_loss", "discriminator_loss", "discriminator_auc", "discriminator_recall", "replaced_rate")
        for step, *values in self.rows:
            if step:
                history.append({"loss": 30.0, "tokens_seen": int(step) * self.tokens_per_step, "step": int(step)})
            metrics = {f"eval_{name}": value for name, value in zip(names, values, strict=True)}
            history.append({**metrics, "eval_loss": 30.0, "eval_tokens": self.eval_tokens, "step": int(step)})
        return history

    def evaluations(self) -> list[Evaluation]:
        return evaluations_of(self.log_history())


QUICKSTART = Curve(
    2048,
    1024,
    200,
    (
        (0, 7.639, 0.6917, 0.499, 0.423, 0.1561),
        (250, 6.027, 0.4209, 0.584, 0.003, 0.1547),
        (500, 5.812, 0.4242, 0.549, 0.014, 0.1533),
        (750, 5.675, 0.4152, 0.577, 0.004, 0.1502),
        (1000, 5.567, 0.4073, 0.593, 0.011, 0.1487),
        (1250, 5.484, 0.4048, 0.585, 0.011, 0.1469),
        (1500, 5.427, 0.4013, 0.598, 0.028, 0.1457),
        (1750, 5.382, 0.3995, 0.605, 0.044, 0.1450),
        (2000, 5.333, 0.3955, 0.621, 0.047, 0.1445),
        (2250, 5.311, 0.3897, 0.633, 0.051, 0.1436),
        (2500, 5.286, 0.3893, 0.643, 0.040, 0.1432),
        (2750, 5.264, 0.3880, 0.645, 0.027, 0.1428),
        (3000, 5.248, 0.3850, 0.650, 0.055, 0.1427),
        (3250, 5.234, 0.3822, 0.663, 0.039, 0.1425),
        (3500, 5.225, 0.3782, 0.672, 0.056, 0.1418),
        (3750, 5.214, 0.3796, 0.669, 0.059, 0.1417),
        (4000, 5.205, 0.3763, 0.681, 0.056, 0.1416),
        (4250, 5.201, 0.3751, 0.684, 0.055, 0.1413),
        (4500, 5.198, 0.3721, 0.692, 0.054, 0.1414),
        (4750, 5.193, 0.3741, 0.689, 0.079, 0.1412),
        (5000, 5.193, 0.3720, 0.692, 0.062, 0.1413),
    ),
    eval_tokens=27_904,
)
"""quickstart.yaml, evaluated every 250 steps: healthy. All columns measured."""

QUICKSTART_FAST = Curve(
    2048,
    1024,
    200,
    (
        (0, 7.639, 0.6917, 0.499, 0.423, 0.1561),
        (250, 5.939, 0.4247, 0.508, 0.000, 0.1538),
        (500, 5.568, 0.4176, 0.525, 0.000, 0.1467),
        (750, 5.351, 0.4079, 0.520, 0.000, 0.1417),
        (1000, 5.247, 0.4019, 0.517, 0.000, 0.1380),
        (1250, 5.145, 0.3985, 0.527, 0.000, 0.1365),
        (1500, 5.119, 0.3962, 0.515, 0.000, 0.1353),
        (1750, 5.067, 0.3940, 0.504, 0.000, 0.1339),
        (2000, 5.054, 0.3916, 0.504, 0.000, 0.1328),
        (2250, 5.042, 0.3920, 0.509, 0.000, 0.1330),
        (2500, 5.022, 0.3927, 0.508, 0.000, 0.1332),
    ),
    eval_tokens=27_904,
)
"""The same at learning rate 2e-3, docs/results.md: collapses. All columns measured, the first half of the run."""

QUICKSTART_OF_THE_DOCS = replace(
    QUICKSTART,
    rows=tuple(
        (*row[:3], auc, *row[4:])
        for row, auc in zip(QUICKSTART.rows[::4], (0.499, 0.569, 0.636, 0.657, 0.685, 0.699), strict=True)
    ),
)
"""docs/results.md, on two cores: its AUC at every thousandth step, the other columns of the first run above."""

GLUE_CPU = Curve(
    2048,
    2048,
    1000,
    (
        (0, 7.857, 0.6683, 0.513, 0.286, 0.2499),
        (1500, 5.393, 0.5214, 0.526, 0.004, 0.2210),
        (3000, 5.326, 0.5113, 0.522, 0.002, 0.2124),
        (4500, 5.319, 0.5101, 0.520, 0.002, 0.2114),
        (6000, 5.312, 0.5089, 0.544, 0.003, 0.2113),
        (7500, 5.310, 0.5043, 0.573, 0.008, 0.2112),
        (9000, 5.307, 0.4982, 0.603, 0.026, 0.2112),
        (10500, 5.307, 0.4941, 0.618, 0.025, 0.2111),
        (12000, 5.307, 0.4904, 0.632, 0.043, 0.2111),
        (13500, 5.306, 0.4854, 0.650, 0.044, 0.2111),
        (15000, 5.307, 0.4782, 0.669, 0.065, 0.2111),
        (16500, 5.305, 0.4608, 0.713, 0.101, 0.2111),
        (18000, 5.306, 0.4407, 0.753, 0.162, 0.2111),
        (19500, 5.306, 0.4265, 0.776, 0.214, 0.2111),
        (21000, 5.307, 0.4153, 0.794, 0.247, 0.2111),
        (22500, 5.305, 0.4067, 0.806, 0.265, 0.2111),
        (24000, 5.305, 0.3936, 0.823, 0.290, 0.2111),
        (25500, 5.305, 0.3756, 0.843, 0.330, 0.2111),
    ),
)
"""glue_cpu.yaml: healthy, and slow to start. Recall of the last three rows filled in."""

GLUE_CPU_FAST = Curve(
    4096,
    2048,
    1000,
    (
        (0, 8.444, 0.6311, 0.467, 0.200, 0.1484),
        (1500, 5.790, 0.3864, 0.540, 0.000, 0.1312),
        (3000, 5.657, 0.3763, 0.525, 0.000, 0.1261),
        (4500, 5.633, 0.3754, 0.517, 0.000, 0.1255),
        (6000, 5.626, 0.3782, 0.503, 0.000, 0.1254),
        (7500, 5.603, 0.3772, 0.511, 0.000, 0.1254),
    ),
)
"""An earlier glue_cpu.yaml with three layers, 4,096 WordPieces, 15 % chosen and learning rate 1e-3: collapses."""

SMALL = Curve(
    30_522,
    1024,
    260,
    (
        (0, 10.347, 0.7014, 0.492, 0.450, 0.1484),
        (250, 9.449, 0.3129, 0.844, 0.300, 0.1484),
        (500, 8.022, 0.3587, 0.772, 0.200, 0.1480),
        (750, 7.433, 0.4058, 0.611, 0.000, 0.1465),
        (1000, 7.242, 0.4077, 0.573, 0.000, 0.1460),
        (1250, 7.137, 0.4071, 0.548, 0.000, 0.1445),
        (1500, 7.084, 0.4058, 0.546, 0.000, 0.1443),
        (1750, 7.052, 0.4044, 0.546, 0.000, 0.1440),
        (2000, 7.024, 0.4041, 0.548, 0.000, 0.1435),
        (2250, 7.011, 0.4036, 0.540, 0.000, 0.1430),
        (2500, 7.003, 0.4032, 0.548, 0.000, 0.1430),
        (2600, 7.002, 0.4035, 0.547, 0.000, 0.1430),
    ),
)
"""ELECTRA-Small on Wikipedia, docs/results.md: ends before it starts; easy samples at first."""

SMALL_FAST = Curve(
    30_522,
    1024,
    300,
    (
        (0, 10.347, 0.7014, 0.492, 0.450, 0.1484),
        (250, 9.000, 0.3500, 0.800, 0.300, 0.1484),
        *((step, 6.74 + 300 / step, 0.4100, 0.500, 0.000, 0.1430) for step in range(500, 2251, 250)),
    ),
)
"""Its first run, learning rate 5e-4: AUC .500 from step 500 on. Losses filled in, except for the last generator's."""

TINY_CPU = Curve(
    2048,
    1024,
    200,
    (
        (0, 7.633, 0.6922, 0.486, 0.450, 0.1561),
        (500, 6.006, 0.4171, 0.556, 0.000, 0.1500),
        (1000, 5.664, 0.4074, 0.548, 0.000, 0.1454),
        (1500, 5.525, 0.4008, 0.542, 0.000, 0.1415),
        (2000, 5.458, 0.3969, 0.538, 0.000, 0.1391),
        (2500, 5.415, 0.3944, 0.547, 0.000, 0.1377),
        (3000, 5.385, 0.3922, 0.541, 0.000, 0.1365),
        (3500, 5.371, 0.3907, 0.539, 0.000, 0.1356),
        (4000, 5.361, 0.3902, 0.538, 0.000, 0.1353),
        (4500, 5.355, 0.3899, 0.532, 0.000, 0.1352),
        (5000, 5.352, 0.3896, 0.536, 0.000, 0.1350),
    ),
)
"""tiny_cpu.yaml on Wikipedia, docs/results.md: not started."""

SHORT = (
    Curve(
        4096,
        4096,
        500,
        (
            (0, 8.437, 0.6499, 0.526, 0.350, 0.1561),
            (250, 6.242, 0.4157, 0.542, 0.000, 0.1492),
            (500, 5.854, 0.3950, 0.534, 0.000, 0.1381),
            (750, 5.774, 0.3951, 0.537, 0.000, 0.1381),
        ),
    ),
    Curve(
        4096,
        1024,
        500,
        (
            (0, 8.445, 0.6329, 0.447, 0.300, 0.1561),
            (1000, 6.039, 0.4068, 0.542, 0.000, 0.1450),
            (2000, 5.819, 0.3930, 0.535, 0.000, 0.1369),
            (3000, 5.764, 0.3885, 0.531, 0.000, 0.1344),
        ),
    ),
    Curve(
        4096,
        1024,
        500,
        (
            (0, 8.445, 0.6329, 0.447, 0.300, 0.1561),
            (1000, 6.176, 0.4118, 0.559, 0.000, 0.1480),
            (2000, 5.875, 0.3973, 0.532, 0.000, 0.1394),
        ),
    ),
    Curve(
        4096,
        1024,
        500,
        (
            (0, 8.437, 0.6499, 0.526, 0.350, 0.1561),
            (1000, 5.813, 0.3912, 0.543, 0.000, 0.1359),
            (2000, 5.755, 0.3917, 0.528, 0.000, 0.1362),
        ),
    ),
    Curve(
        4096,
        1024,
        500,
        (
            (0, 8.456, 0.6487, 0.428, 0.350, 0.1561),
            (500, 6.422, 0.4145, 0.574, 0.000, 0.1510),
            (1000, 6.027, 0.4049, 0.561, 0.000, 0.1439),
            (1500, 5.875, 0.3975, 0.552, 0.000, 0.1395),
            (2000, 5.821, 0.3922, 0.536, 0.000, 0.1365),
        ),
    ),
)
"""Pairs like that of tiny_cpu.yaml, 4,096 WordPieces, learning rates 1e-3 to 2.5e-3, stopped before they started."""
