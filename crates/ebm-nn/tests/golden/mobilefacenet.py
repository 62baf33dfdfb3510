"""Makes mobilefacenet.safetensors: maps, gradients and running statistics of MobileFaceNet from PyTorch in f64.

The published graph is run node by node with torch's functions, with its own parameters and with those of networks.py.
Run: python mobilefacenet.py model-symbol.json model-0000.params   (beside the file it writes)
"""
import json
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

from networks import formula, save, summary, value

# The nodes behind which a map ends, and the embedding.
MAPS = ["conv_2_dw_relu", "_plus3", "_plus9", "conv_6sep_relu"]
DTYPES = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.uint8, 4: np.int32, 5: np.int8, 6: np.int64}


def read_params(path):
    """The arrays of an MXNet .params file, without the `arg:` and `aux:` of their names."""
    data, at = open(path, "rb").read(), 0

    def take(form):
        nonlocal at
        found = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return found if len(found) > 1 else found[0]

    assert take("QQ") == (0x112, 0)
    arrays = []
    for _ in range(take("Q")):
        magic = take("I")
        assert magic == 0xF993FAC9 and take("i") == 0, hex(magic)
        shape = [take("q") for _ in range(take("I"))]
        take("ii")
        dtype = np.dtype(DTYPES[take("i")])
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += count * dtype.itemsize
    names = []
    for _ in range(take("Q")):
        length = take("Q")
        names.append(data[at:at + length].decode())
        at += length
    assert at == len(data)
    return {name.split(":", 1)[1]: torch.tensor(array) for name, array in zip(names, arrays)}


def pair(text):
    return tuple(int(number) for number in text.strip("()").split(","))


def run(graph, params, x, train, buffers, scaled=False):
    """The value of every node, of images in 0 to 255, or with `scaled` as the first convolution takes them."""
    values = {}
    for node in graph["nodes"]:
        name, op, attrs = node["name"], node["op"], node.get("attrs") or node.get("param") or {}
        inputs = [values[graph["nodes"][i[0]]["name"]] for i in node["inputs"]]
        if op == "null":
            y = x if name == "data" else params[name]
        elif op in ("_minus_scalar", "_mul_scalar"):
            number = float(attrs["scalar"])
            y = inputs[0] if scaled else inputs[0] - number if op == "_minus_scalar" else inputs[0] * number
        elif op == "Convolution":
            stride, pad = pair(attrs["stride"])[0], pair(attrs["pad"])[0]
            y = F.conv2d(inputs[0], inputs[1], None, stride, pad, 1, int(attrs["num_group"]))
        elif op == "BatchNorm":
            # MXNet's default, 1e-3, where the node says nothing.
            eps, momentum = float(attrs.get("eps", 1e-3)), 1 - float(attrs["momentum"])
            x_, gamma, beta, mean, var = inputs
            gamma = torch.ones_like(gamma) if attrs["fix_gamma"] == "True" else gamma
            mean, var = mean.clone(), var.clone()
            y = F.batch_norm(x_, mean, var, gamma, beta, train, momentum, eps)
            buffers[name + "_moving_mean"], buffers[name + "_moving_var"] = mean, var
        elif op == "LeakyReLU":
            assert attrs["act_type"] == "prelu"
            y = F.prelu(inputs[0], inputs[1])
        elif op == "elemwise_add":
            y = inputs[0] + inputs[1]
        elif op == "FullyConnected":
            y = F.linear(inputs[0].flatten(1), inputs[1], inputs[2])
        else:
            raise ValueError(op)
        values[name] = y
    return values


def torch_name(name):
    """Our name of a parameter: torch's behind MXNet's name of the layer."""
    if name in ("fc1_weight", "pre_fc1_bias"):
        return "pre_fc1." + name.rsplit("_", 1)[1]
    for old, new in {"_moving_mean": ".running_mean", "_moving_var": ".running_var", "_gamma": ".weight", "_beta": ".bias",
                     "_weight": ".weight", "_bias": ".bias"}.items():
        if name.endswith(old):
            return name[:-len(old)] + new
    raise ValueError(name)


def main():
    graph, published = json.load(open(sys.argv[1])), read_params(sys.argv[2])
    out = {}
    with torch.no_grad():
        params = {name: tensor.double() for name, tensor in published.items()}
        values = run(graph, params, 2 * formula("input", (2, 3, 112, 112)), False, {}, scaled=True)
        for i, name in enumerate(MAPS):
            out[f"published.map{i}"] = summary(values[name])
        out["published.embedding"] = values["fc1"]
    ours = {name: value(torch_name(name), tuple(t.shape)).double() for name, t in published.items()}
    is_buffer = lambda name: "_moving_" in name
    ours = {name: tensor if is_buffer(name) else tensor.requires_grad_() for name, tensor in ours.items()}
    buffers = {}
    values = run(graph, ours, 2 * formula("input", (2, 3, 112, 112)), True, buffers, scaled=True)
    nodes = MAPS + ["fc1"]
    loss = sum((values[name] * formula(f"out{i}", tuple(values[name].shape))).sum() for i, name in enumerate(nodes))
    loss.backward()
    out["train.loss"] = loss.detach().reshape(1)
    for name, tensor in ours.items():
        # Of the embedding's normalisation the graph has no factor.
        if not is_buffer(name) and name != "fc1_gamma":
            out[f"train.grad.{torch_name(name)}"] = summary(tensor.grad)
    for name, tensor in buffers.items():
        out[f"train.buffer.{torch_name(name)}"] = summary(tensor)
    save("mobilefacenet", out)


if __name__ == "__main__":
    main()
