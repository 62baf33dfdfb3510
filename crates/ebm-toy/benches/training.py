"""Alternates training.rs with the same training in PyTorch in one run, and prints docs/results/toy_speed.csv; see
training.rs for the command."""

import csv
import datetime
import math
import os
import platform
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

ROUNDS = 5
EPOCHS = 3
POINTS = 2000
BATCH = 32
SAMPLES = 1024


class Energy(nn.Module):
    """The paper's network for 1-D x and y; the features of x are computed once and expanded."""

    def __init__(self):
        super().__init__()
        self.x1, self.x2 = nn.Linear(1, 10), nn.Linear(10, 10)
        self.y1, self.y2 = nn.Linear(1, 10), nn.Linear(10, 10)
        self.joint1, self.joint2, self.out = nn.Linear(20, 10), nn.Linear(10, 10), nn.Linear(10, 1)

    def forward(self, x, y):
        batch, count = y.shape
        g = F.relu(self.x2(F.relu(self.x1(x))))
        h = F.relu(self.y2(F.relu(self.y1(y.reshape(-1, 1)))))
        g = g.view(batch, 1, -1).expand(-1, count, -1).reshape(batch * count, -1)
        z = F.relu(self.joint2(F.relu(self.joint1(torch.cat([g, h], 1)))))
        return self.out(z).view(batch, count)


def dataset():
    x = torch.rand(POINTS, 1) * 6 - 3
    sign = torch.where(torch.rand(POINTS, 1) < 0.8, 1.0, -1.0)
    left = sign * torch.sin(x) + 0.075 * torch.randn(POINTS, 1)
    right = torch.exp(0.25 * torch.randn(POINTS, 1)) - 1
    return x, torch.where(x < 0, left, right)


def train(epochs):
    """Seconds for a training with one draw of offsets for each batch, as the authors' code and ours."""
    x, y = dataset()
    start = time.perf_counter()
    network = Energy()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    sigma = torch.tensor([0.1, 0.8])
    constant = math.log(2) + 0.5 * math.log(2 * math.pi)
    for _ in range(epochs):
        for index in torch.randperm(POINTS).split(BATCH):
            xs, ys = x[index], y[index]
            offset = torch.randn(SAMPLES) * sigma[torch.randint(0, 2, (SAMPLES,))]
            log_q = torch.logsumexp(-0.5 * (offset[:, None] / sigma) ** 2 - sigma.log(), 1) - constant
            f = network(xs, torch.cat([ys, ys + offset], 1))
            log_z = torch.logsumexp(f[:, 1:] - log_q, 1) - math.log(SAMPLES)
            loss = (log_z - f[:, 0]).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return time.perf_counter() - start


def compare(binary, threads, table):
    torch.set_num_threads(threads)
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    ours, torchs = [], []
    with subprocess.Popen([binary], env=environment, **pipes) as process:
        for round_ in range(ROUNDS + 1):
            process.stdin.write(f"{EPOCHS}\n")
            process.stdin.flush()
            mine, theirs = float(process.stdout.readline()), train(EPOCHS)
            if round_ > 0:  # the first is warm-up
                ours.append(mine)
                torchs.append(theirs)
        process.stdin.close()
    steps = EPOCHS * math.ceil(POINTS / BATCH)
    device = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}"
    for name, pick in [(f"minimum of {ROUNDS}", min), ("median", statistics.median)]:
        row = [datetime.date.today(), device, threads, name]
        table.writerow(row + [f"{pick(times) / steps * 1e3:.4f}" for times in (ours, torchs)])


if __name__ == "__main__":
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["date", "device", "threads", "statistic", "ours_ms", "pytorch_ms"])
    for threads in [1, 2]:
        compare(sys.argv[1], threads, table)
