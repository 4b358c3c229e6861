"""What is wrong with the questions of a file, counted over the whole file."""

import logging
from collections import Counter

from electra.io.errors import UserError

logger = logging.getLogger(__name__)


class Faults:
    """The faults of the questions in a source: how often each kind occurs, and its first question."""

    def __init__(self) -> None:
        self.firsts: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def add(self, what: str, question: str) -> None:
        self.firsts.setdefault(what, question)
        self.counts[what] += 1

    def check(self, source: str, total: int, advice: str) -> None:
        """Raise a UserError that names all kinds of faults, if there is a fault among `total` questions."""
        if self.counts:
            raise UserError(f"{self._shown(source, total)}; {advice}")

    def warn(self, source: str, total: int) -> None:
        """Log a warning that names all kinds of faults, if there is a fault among `total` questions."""
        if self.counts:
            logger.warning(self._shown(source, total))

    def _shown(self, source: str, total: int) -> str:
        found = [f"{number} {what} (first: {self.firsts[what]})" for what, number in self.counts.most_common(5)]
        return f"{source}: of {total} questions, {'; '.join(found)}"
