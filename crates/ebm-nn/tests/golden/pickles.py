"""Golden files of torch's format before 1.6, and their tensors as safetensors.

Run: python pickles.py (writes beside itself).
"""

import collections

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


if __name__ == "__main__":
    main()
