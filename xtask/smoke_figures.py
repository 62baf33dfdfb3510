#!/usr/bin/env python3
"""Records the results of every `ebm reproduce` command with `--smoke` and fixed seeds, or compares two records.

    python3 xtask/smoke_figures.py record target/release/ebm FOLDER   # a JSON file for each command
    python3 xtask/smoke_figures.py compare BEFORE AFTER               # exit 1 if a figure differs

Times, rates, paths and the notes beside the figures are left out: they differ between machines and runs. On a CPU everything
else is the same, digit for digit.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {
    "detection-table2": "detection --scale mini --seeds 1",
    "detection-table1": "detection --scale mini --seeds 1 --table 1",
    "detection-figure3a": "detection --scale mini --seeds 1 --figure 3a",
    "detection-lambda": "detection --scale mini --seeds 1 --grid lambda",
    "tracking": "tracking --scale mini --seeds 1",
    "tracking-sigma": "tracking --scale mini --seeds 1 --ablation sigma",
    "age": "age --scale mini --seeds 1",
    "age-sigma": "age --scale mini --seeds 1 --ablation",
    "head-pose": "head-pose --scale mini --seeds 1",
    "toy": "toy --seeds 1",
}
VOLATILE = {"seconds", "frames_per_second", "boxes_per_second", "refinement_share", "run", "notes", "remarks", "environment", "verdict", "files", "figures"}


def figures(value):
    if isinstance(value, dict):
        return {k: figures(v) for k, v in value.items() if k not in VOLATILE and not k.endswith("_seconds")}
    return [figures(v) for v in value] if isinstance(value, list) else value


def record(ebm, folder):
    ebm = Path(ebm).resolve()
    Path(folder).mkdir(parents=True, exist_ok=True)
    weights = (Path(__file__).parent.parent / "weights").resolve()
    for name, arguments in COMMANDS.items():
        with tempfile.TemporaryDirectory() as place:
            command = [ebm, "reproduce", *arguments.split(), "--smoke", "--json"]
            if name != "toy":
                command += ["--weights", weights]
            done = subprocess.run(command, cwd=place, capture_output=True, text=True)
            if done.returncode:
                sys.exit(f"{name}: exit code {done.returncode}\n{done.stderr}")
        text = json.dumps(figures(json.loads(done.stdout)), indent=1, sort_keys=True)
        (Path(folder) / f"{name}.json").write_text(text + "\n")
        print(f"{name}: recorded", flush=True)


def compare(before, after):
    wrong = 0
    for name in COMMANDS:
        sides = [(Path(folder) / f"{name}.json").read_text() for folder in (before, after)]
        same = sides[0] == sides[1]
        wrong += not same
        print(f"{name}: {'the same' if same else 'differs'}")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", ebm, folder]:
            record(ebm, folder)
        case ["compare", before, after]:
            compare(before, after)
        case _:
            sys.exit(__doc__)
