"""A run -> docs/images, the pictures of the README: the top of its report and a sample, as Chromium shows them.

    python -m docs.figures output/quickstart

Pictures are kept small by a palette of 256 colours.
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

from electra.errors import UserError, run_script
from electra.markup import page
from electra.report.runs import read_run
from electra.report.write import write_report
from electra.samples import to_html

logger = logging.getLogger("figures")

FOLDER = Path(__file__).parent / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, TOP = 1080, 884
"""Pixels of the report's page: three charts side by side, the first three rows of them."""
MARGIN = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of run_pretraining.py that has ended")
    run = read_run(parser.parse_args().run)
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    if not run.samples:
        raise UserError(f"{run.folder} has no samples; name a run that has ended")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report, _ = write_report([run.folder], output=Path(folder) / "report.html")
        save(screenshot(report, TOP), FOLDER / "report.png")
        prose = max(run.samples, key=lambda s: sum(token.strip().isalpha() for token in s.original) / len(s.original))
        report.write_text(page("What the pair makes of held-out text", [to_html(prose)]), encoding="utf-8")
        save(screenshot(report, TOP), FOLDER / "sample.png")


def screenshot(file: Path, height: int) -> Image.Image:
    """The top of a page, light, without what is empty below.

    Raises:
        UserError: there is no Chromium, or it took no picture.
    """
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise UserError(f"none of {', '.join(BROWSERS)} is installed; install one")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        picture = Path(folder) / "page.png"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += ["--blink-settings=preferredColorScheme=1", "--virtual-time-budget=2000"]
        command += [f"--user-data-dir={folder}/profile", f"--window-size={WIDTH},{height}", f"--screenshot={picture}"]
        done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120)
        if not picture.is_file():
            raise UserError(f"{browser} took no picture: {done.stderr.strip()[-200:]}")
        image = Image.open(io.BytesIO(picture.read_bytes())).convert("RGB")
    filled = ImageChops.difference(image, Image.new("RGB", image.size, image.getpixel((0, 0)))).getbbox()
    bottom = height if filled is None else min(height, filled[3] + MARGIN)
    return image.crop((0, 0, image.width, bottom))


def save(image: Image.Image, path: Path) -> None:
    """Write a picture with few colours."""
    image.quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    logger.info("%s (%.0f kB)", path, path.stat().st_size / 1e3)


if __name__ == "__main__":
    run_script(main)
