"""Writes events.out.tfevents.0.golden with TensorBoard's own writer, and reads a file of events with its own reader.

    pip install tensorboard==2.21.0 setuptools
    python events.py                           # writes the golden file beside this script
    python events.py FOLDER                    # prints what TensorBoard reads in a folder
"""

import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

STEPS = [
    (1_700_000_001.5, 0, {"loss": 1 / 3, "grad_norm": 0.0}),
    (1_700_000_002.0, 300, {"λ": -2.5e-7}),
    (1_700_000_003.0, 70_000_000_000, {"validation": float("inf")}),
]


def write(path):
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1_700_000_000.25, file_version="brain.Event:2").SerializeToString())
        for wall_time, step, scalars in STEPS:
            values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
            writer.write(Event(wall_time=wall_time, step=step, summary=Summary(value=values)).SerializeToString())
        writer.flush()


def read(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    for tag in sorted(events.Tags()["scalars"]):
        scalars = events.Scalars(tag)
        print(tag, len(scalars), scalars[0].step, scalars[0].value, scalars[-1].step, scalars[-1].value)


if len(sys.argv) > 1:
    read(sys.argv[1])
else:
    write(pathlib.Path(__file__).parent / "events.out.tfevents.0.golden")
