"""Reads back what a run has given to its trackers: wandb's offline files, and TensorBoard's by its own reader."""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2


@dataclass
class Tracked:
    """One run of wandb, offline.

    Args:
        folder: where its media are.
        config: as of its end.
        history: every line that was logged; parts of what is no number are `NAME.PART`.
        summary: the last value of each name.
    """

    folder: Path
    name: str = ""
    group: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def values(self, name: str) -> list[Any]:
        return [line[name] for line in self.history if name in line]

    def table(self, name: str) -> list[dict[str, Any]]:
        """Its rows, by the names of the columns."""
        content = json.loads((self.folder / "files" / self.values(f"{name}.path")[-1]).read_text())
        return [dict(zip(content["columns"], row, strict=True)) for row in content["data"]]


def read_wandb(folder: Path) -> dict[str, Tracked]:
    """All runs below a folder, by name."""
    found = {}
    for path in sorted(folder.glob("offline-run-*/run-*.wandb")):
        run = Tracked(path.parent)
        for content in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(content)
            if record.HasField("run"):
                run.name, run.group = record.run.display_name, record.run.run_group
                run.config |= _items(record.run.config.update)
            run.config |= _items(record.config.update)
            run.summary |= _items(record.summary.update)
            if record.HasField("history"):
                run.history.append(_items(record.history.item))
        found[run.name] = run
    return found


def _items(items: Any) -> dict[str, Any]:
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(content: bytes) -> Iterator[bytes]:
    """The records of LevelDB's log format, behind wandb's own seven bytes."""
    block, header = 32768, 7
    place, parts = header, b""
    while place + header <= len(content):
        if block - place % block < header:
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + header : place + header + length]
        place += header + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def read_tensorboard(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Steps and values of all scalars of the event files in and below a folder, by name."""
    scalars: dict[str, list[tuple[int, float]]] = {}
    for path in sorted(folder.rglob("events.out.tfevents.*")):
        events = EventAccumulator(str(path), size_guidance={"scalars": 0})
        events.Reload()
        for name in events.Tags()["scalars"]:
            scalars.setdefault(name, []).extend((event.step, event.value) for event in events.Scalars(name))
    return scalars
