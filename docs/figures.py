"""Make the picture of the README from a run: a sample of held-out text, rendered by Chromium.

    python -m docs.figures output/quickstart

A palette of 256 colours keeps the files small.
"""

import argparse
import io
import logging
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from electra.base.errors import run_script
from electra.base.samples import Sample
from electra.core.errors import UserError
from electra.report.blocks import to_html
from electra.report.runs import read_run

logger = logging.getLogger("figures")

FOLDER = Path(__file__).parent / "images"
"""Folder of the picture."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
"""Names of Chromium's program; the first one that is installed takes the picture."""
WIDTH, HEIGHT = 1080, 884
"""Pixels of the browser's window; the picture ends below the text."""
MARGIN = 16
"""Pixels of the picture below the text."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py that has ended")
    run = read_run(parser.parse_args().run)
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    if not run.samples:
        raise UserError(f"{run.folder} has no samples; name a run that has ended")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "sample.html"
        html = to_html("A held-out text and the networks", [max(run.samples, key=share_of_words)])
        page.write_text(html.replace("<h1>", "<h1 hidden>"), encoding="utf-8")  # README says what it is
        save(screenshot(page), FOLDER / "sample.png")


def share_of_words(sample: Sample) -> float:
    """Return the share of a sample's tokens that are letters alone: prose has more of them than lists and numbers."""
    return sum(token.strip().isalpha() for token in sample.original) / len(sample.original)


def screenshot(file: Path) -> Image.Image:
    """Return a picture of a page of HTML in light colours, without the empty space below the text.

    Raises:
        UserError: Chromium is not installed or failed.
    """
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise UserError(f"none of {', '.join(BROWSERS)} is installed; install one")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        picture = Path(folder) / "page.png"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--blink-settings=preferredColorScheme=1", "--virtual-time-budget=2000"]
        command += [f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={picture}"]
        done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120)
        if not picture.is_file():
            raise UserError(f"{browser} took no picture: {done.stderr.strip()[-200:]}")
        image = Image.open(io.BytesIO(picture.read_bytes())).convert("RGB")
    text_box = ImageChops.difference(image, Image.new("RGB", image.size, image.getpixel((0, 0)))).getbbox()
    bottom = HEIGHT if text_box is None else min(HEIGHT, text_box[3] + MARGIN)
    return image.crop((0, 0, image.width, bottom))


def save(image: Image.Image, path: Path) -> None:
    """Write a picture as PNG with 256 colours, and log its path and size."""
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    logger.info("%s (%.0f kB)", path, path.stat().st_size / 1e3)


if __name__ == "__main__":
    run_script(main)
