#!/usr/bin/env python3
"""Times our works in turn with PyTorch, ONNX Runtime and OpenVINO, and writes docs/performance.md.

    python3 bench/compare.py [OPTIONS]

In each round every process does the work once, one after another, so that a slower machine slows all of them.
The ratio is our time over the fastest peer's.
"""

import argparse
import csv
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEER = HERE / "peer.py"
WARM_UP = 2
# Seconds in which busy threads of the previous process go to sleep.
PAUSE = 0.02
# Seconds after which a process without an answer is killed; torch.compile takes minutes.
LIMIT = 900
# Forms whose requirements a machine may lack.
OPTIONAL = {"compile", "onnxruntime", "openvino"}
RUNTIMES = {"onnxruntime", "openvino"}


class Worker:
    """Process that does a work once for each line `run`."""

    def __init__(self, label, command, environment):
        self.label, self.seconds = label, []
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env={**os.environ, **environment})
        if (answer := self.answer()) != "ready":
            raise RuntimeError(self.last_words(answer))

    def answer(self):
        """Returns the process's next line, or an empty one if it ends or is killed after LIMIT."""
        timer = threading.Timer(LIMIT, self.process.kill)
        timer.start()
        try:
            return self.process.stdout.readline().strip()
        finally:
            timer.cancel()

    def last_words(self, answer):
        self.end()
        self.errors.seek(0)
        words = [line.strip() for line in self.errors if line.strip()] or [f"it said {answer!r}"]
        return f"{self.label} does not work here: {words[-1]}"

    def run(self):
        time.sleep(PAUSE)
        try:
            print("run", file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass
        answer = self.answer()
        try:
            self.seconds.append(float(answer))
        except ValueError:
            raise RuntimeError(self.last_words(answer)) from None

    def peak_mib(self):
        """Returns the largest resident size of the process in MiB."""
        try:
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return None

    def end(self):
        self.process.kill()
        self.process.wait()


def environment_of(threads):
    count = str(threads)
    limited = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"} if os.environ.get("EBM_SIMD") == "avx2" else {}
    return {"RAYON_NUM_THREADS": count, "OMP_NUM_THREADS": count, "MKL_NUM_THREADS": count, **limited}


def forms_of(work, options, has_torch):
    """Yields the forms that can be compared on this machine."""
    for peer in work["peers"]:
        form = peer.partition("=")[0]
        skipped = (form == "compile" and options.no_compile) or (form in RUNTIMES and options.device != "cpu")
        if not skipped and ("=" in peer or has_torch) and not (form == "onnxruntime" and os.environ.get("EBM_SIMD")):
            yield peer


def measured(work, options, has_torch):
    """Returns the workers with their times, ours first, and a note for each form that does not work."""
    ours = [options.program, *(["--smoke"] if options.smoke else []), "--device", options.device]
    environment, notes = environment_of(options.threads), []
    with tempfile.TemporaryDirectory() as folder:
        pictures = []
        if work["task"]["task"] == "loader":
            pictures = [f"{folder}/scenes"]
            subprocess.run([*ours, "pictures", work["name"], *pictures], check=True)
        workers = []
        try:
            workers.append(Worker("ours", [*ours, "work", work["name"], *pictures], environment))
            for peer in forms_of(work, options, has_torch):
                form, _, other = peer.partition("=")
                task = [options.python, PEER, json.dumps(work["task"]), form, str(options.threads), options.device, *pictures]
                try:
                    workers.append(Worker(form, [*ours, "work", other] if other else task, environment))
                except RuntimeError as error:
                    if form not in OPTIONAL:
                        raise
                    notes.append(str(error))
            for _ in range(WARM_UP + options.rounds):
                for worker in workers:
                    worker.run()
            return [(w.label, [1e3 * s for s in w.seconds[WARM_UP:]], w.peak_mib()) for w in workers], notes
        finally:
            for worker in workers:
                worker.end()


def record(work, series):
    """Returns a row of the CSV file, with the minima and medians of times in milliseconds."""
    (_, ours, ours_mib), peers = series[0], series[1:]
    row = {"work": work["title"], "ours": min(ours), "ours_median": statistics.median(ours), "goal": work["goal"], "ours_mib": ours_mib}
    if peers:
        form, times, mib = min(peers, key=lambda peer: min(peer[1]))
        row |= {"form": form, "peer": min(times), "peer_median": statistics.median(times), "peer_mib": mib}
        row |= {"ratio": row["ours"] / row["peer"], "ratio_of_medians": row["ours_median"] / row["peer_median"]}
    for form, times, _ in peers:
        row |= {form: min(times), f"{form}_median": statistics.median(times)}
    return row


def shown(value, digits=3):
    return "–" if value in (None, "") else f"{value:.{digits}g}" if value < 1000 else f"{value:.0f}"


def page(rows, options, versions):
    """Returns the page as Markdown."""
    today = datetime.datetime.now(datetime.timezone.utc).date()
    met = [row["ratio"] <= row["goal"] for row in rows if row.get("ratio") and row["goal"]]
    warning = "**Tiny sizes: the times mean nothing.** " if options.smoke else ""
    lines = ["# Performance", "", f"{warning}Written by `bench/compare.py` on {today} (UTC): {platform.processor() or platform.machine()}, "
             f"{cpu()}, {options.threads} threads for each process, {options.rounds} rounds, device {options.device}; {versions}.",
             "Milliseconds, minimum (median); the ratio is ours over the fastest peer.", "",
             "| work | ours | best peer | form | ratio | of medians | goal | MiB ours | peer |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        def pair(name):
            return f"{shown(row.get(name))} ({shown(row.get(name + '_median'))})" if row.get(name) else "–"

        lines.append(f"| {row['work']} | {pair('ours')} | {pair('peer')} | {row.get('form', '–')} | {shown(row.get('ratio'), 2)} | "
                     f"{shown(row.get('ratio_of_medians'), 2)} | {shown(row['goal'], 2)} | {shown(row['ours_mib'])} | {shown(row.get('peer_mib'))} |")
    return "\n".join([*lines, "", f"{sum(met)} of {len(met)} goals are met." if met else "No peer was there.", ""])


def cpu():
    try:
        return next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown processor"


def peer_versions(python):
    """Returns the versions that the peer's script reports, or an empty text without Python or PyTorch."""
    try:
        probed = subprocess.run([python, PEER, "probe"], capture_output=True, text=True)
    except OSError:
        return ""
    return probed.stdout.strip() if probed.returncode == 0 else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", help="a built ebm-bench; by default cargo builds one")
    parser.add_argument("--python", default=sys.executable, help="a Python with torch, and with onnxruntime, openvino and torchvision to compare them")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="works to time; the first part of a name selects a group")
    parser.add_argument("--list", action="store_true", help="list the works and stop")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N")
    parser.add_argument("--no-compile", action="store_true", help="leave out torch.compile, which takes most of the time")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, to see whether everything runs")
    parser.add_argument("--out", type=Path, help="the page to write, with its figures in results/ beside it")
    options = parser.parse_args()
    if not options.program:
        features = ["--features", "cuda"] if options.device != "cpu" else []
        subprocess.run(["cargo", "build", "--release", "-p", "ebm-bench", *features], check=True, cwd=HERE.parent)
        options.program = str(Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "release" / "ebm-bench")
    listing = [options.program, "--device", options.device, *(["--smoke"] if options.smoke else []), "list"]
    works = json.loads(subprocess.run(listing, check=True, capture_output=True, text=True).stdout)
    known = {work["name"] for work in works}
    of = {name: [w for w in works if f"{w['name']}-".startswith(f"{name}-")] for name in options.only}
    if unknown := [name for name in of if not of[name]]:
        parser.error(f"no work is called {', '.join(unknown)}; choose from: {', '.join(sorted(known))}")
    chosen = [w for w in works if not options.only or any(w in group for group in of.values())]
    if options.list:
        print("\n".join(f"{work['name']:24} {work['title']}" for work in chosen))
        return
    versions = peer_versions(options.python)
    if not versions:
        print(f"there is no PyTorch at {options.python}, so only our works are timed; install it with pip install torch, or give --python PATH", file=sys.stderr)
    rows = []
    for work in chosen:
        series, notes = measured(work, options, bool(versions))
        rows.append(record(work, series))
        print(work["name"], shown(rows[-1]["ours"]), "ms, ratio", shown(rows[-1].get("ratio"), 2), *notes, file=sys.stderr)
    text = page(rows, options, versions or "no PyTorch")
    print(text)
    if options.out:
        figures = options.out.parent / "results" / f"{options.out.stem}.csv"
        figures.parent.mkdir(parents=True, exist_ok=True)
        with figures.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        options.out.write_text(text)


if __name__ == "__main__":
    main()
