"""Quantities in words. No torch."""


def format_seconds(seconds: float) -> str:
    """83 -> '1 min 23 s', 7500 -> '2 h 05 min', 200000 -> '2 d 07 h'."""
    seconds = round(seconds)
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // smaller:02d} {smaller_name}"
    return f"{seconds} s"


def format_bytes(count: float) -> str:
    """2_500_000 -> '2.5 MB', by powers of ten."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.1f} kB"
