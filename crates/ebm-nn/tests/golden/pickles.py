"""Golden files of torch's format before 1.6 and of pickled numpy arrays, and their tensors as safetensors.

Run: python pickles.py (writes beside itself).
"""

import collections
import io
import pickle

import numpy as np
import torch
from networks import formula, path
from safetensors.torch import save_file


def tensors():
    base = formula("base", (6, 4)).float()
    return collections.OrderedDict(
        [
            ("module.whole", base),
            ("module.part", base[2:5, 1:3]),  # the same storage: an offset and strides
            ("module.turned", base.t()),  # the same storage: column-major
            ("double", formula("double", (2, 1, 3)).double()),
            ("half", formula("half", (5,)).half()),
            ("brain", formula("brain", (3, 2)).bfloat16()),
            ("byte", torch.arange(7, dtype=torch.uint8)),
            ("short", torch.arange(-3, 3, dtype=torch.int16).reshape(2, 3)),
            ("int", torch.tensor([1 << 20, -5], dtype=torch.int32)),
            ("long", torch.tensor(-(1 << 40))),
            ("flag", torch.tensor([True, False, True])),
            ("empty", torch.zeros(0, 3)),
        ]
    )


class Python2(pickle._Pickler):
    """Writes strings and bytes as Python 2 did: both as byte strings."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_byte_string(self, value):
        data = value.encode() if isinstance(value, str) else value
        if len(data) < 256:
            self.write(pickle.SHORT_BINSTRING + bytes([len(data)]) + data)
        else:
            self.write(pickle.BINSTRING + len(data).to_bytes(4, "little") + data)
        self.memoize(value)

    dispatch[str] = dispatch[bytes] = save_byte_string


def main():
    # A checkpoint in the form of maskrcnn-benchmark's.
    old = {"_use_new_zipfile_serialization": False}
    state = tensors()
    state._metadata = {"": {"version": 1}}
    momentum = {"state": {0: {"momentum_buffer": formula("momentum", (3,)).float()}}, "param_groups": [{"lr": 0.01}]}
    torch.save({"model": state, "optimizer": momentum, "iteration": 90000}, path("legacy_nested.pth"), **old)
    torch.save({"epoch": 3}, path("legacy_empty.pth"), **old)
    torch.save(torch.nn.Linear(2, 1), path("legacy_module.pth"), **old)
    save_file({name: t.contiguous().clone() for name, t in tensors().items() if name != "flag"}, path("legacy.safetensors"))
    # A model of Detectron's: arrays under `blobs`, beside a text.
    arrays = {
        "conv1_w": formula("conv1_w", (2, 3, 1, 1)).float().numpy(),
        "fc6_w": np.asfortranarray(formula("fc6_w", (4, 5)).float().numpy()),
        "fc6_b": formula("fc6_b", (90,)).double().numpy(),
        "half": formula("half", (5,)).half().numpy(),
        "count": np.array([1, -2], dtype=np.int64),
        "lr": np.array(0.02, dtype=np.float32),
    }
    for protocol in (2, 4):
        with open(path(f"arrays{protocol}.pkl"), "wb") as file:
            pickle.dump({"blobs": arrays, "cfg": "MODEL: {}"}, file, protocol)
    file = io.BytesIO()
    Python2(file, 2).dump({"blobs": arrays, "cfg": "MODEL: {}"})
    with open(path("arrays_python2.pkl"), "wb") as out:
        out.write(file.getvalue())
    save_file({name: torch.from_numpy(np.ascontiguousarray(a).reshape(a.shape)) for name, a in arrays.items()}, path("arrays.safetensors"))
    with open(path("big_endian.pkl"), "wb") as file:
        pickle.dump({"x": np.arange(3, dtype=">f4")}, file, 2)


if __name__ == "__main__":
    main()
