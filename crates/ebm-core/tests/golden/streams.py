"""The numbers that tests pin, without this project's code and without rand's: ChaCha with 8 rounds, rand's ways to a float and to a
whole number, and normal numbers by the ziggurat of Doornik (2005). Keys are those of crates/ebm-base/src/seed.rs.

Run: python streams.py
"""

import hashlib
import math
import struct

MASK = 0xFFFFFFFF
# 256 boxes of one area under exp(−x²/2), of which the lowest has the tail beyond R.
R = 3.654152885361008796
density = lambda x: math.exp(-x * x / 2)
AREA = R * density(R) + math.sqrt(math.pi / 2) * math.erfc(R / math.sqrt(2))
X = [AREA / density(R), R]
while len(X) < 256:
    X.append(math.sqrt(-2 * math.log(AREA / X[-1] + density(X[-1]))))
X.append(0.0)


class ChaCha8:
    def __init__(self, key):
        self.key, self.blocks, self.words = key, 0, []

    def block(self):
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", self.key), self.blocks, 0, 0, 0]
        x = list(start)
        self.blocks += 1

        def quarter(a, b, c, d):
            for p, q, r, bits in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)]:
                x[p] = (x[p] + x[q]) & MASK
                mixed = x[r] ^ x[p]
                x[r] = (mixed << bits | mixed >> (32 - bits)) & MASK

        for _ in range(4):
            for i in range(4):
                quarter(i, 4 + i, 8 + i, 12 + i)
            for i in range(4):
                quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
        return [(a + b) & MASK for a, b in zip(x, start)]

    def u32(self):
        self.words = self.words or self.block()
        return self.words.pop(0)

    def u64(self):
        return self.u32() | self.u32() << 32

    def unit(self):
        return (self.u64() >> 11) * 2.0**-53

    def below(self, count):
        product = self.u32() * count
        if (product & MASK) > (-count & MASK):
            product += self.u32() * count >> 32
        return product >> 32

    def normal(self):
        while True:
            bits = self.u64()
            i, x = bits & 255, ((bits >> 12) * 2.0**-51 - 1) * X[bits & 255]
            if abs(x) < X[i + 1]:
                return x
            assert i > 0, "these streams have nothing in the tail"
            low, high = density(X[i]), density(X[i + 1])
            if high + (low - high) * self.unit() < density(x):
                return x


def seeded(state):
    """rand's generator of a whole number: a PCG fills the key."""
    key = b""
    while len(key) < 32:
        state = (state * 6364136223846793005 + 11634580027462260723) % 2**64
        word, turn = ((state >> 18 ^ state) >> 27) & MASK, state >> 59
        key += struct.pack("<I", (word >> turn | word << (32 - turn)) & MASK)
    return ChaCha8(key)


def of(seed, *path):
    digest = lambda data: hashlib.sha256(data).digest()
    key = digest(struct.pack("<Q", seed))
    for part in path:
        key = digest(key + (b"name" + part.encode() if isinstance(part, str) else b"index" + struct.pack("<Q", part)))
    return ChaCha8(key)


print("seed.rs", of(0, "test", 1).u64())
rng = seeded(0)
print("proposal.rs", [[0.1, 0.8][rng.below(2)] * rng.normal() for _ in range(3)])
rng = seeded(0)
print("mixture.rs", [m + s * rng.normal() for m, s in (([-2, 0.5] if rng.unit() < 0.25 else [1, 0.25]) for _ in range(3))])
rng = seeded(0)
print("mixture.rs, latents", [rng.normal() for _ in range(3)])
rng, order = of(0, "faces", "split", "validation"), list(range(20))
for last in range(19, 0, -1):
    other = rng.u64() * (last + 1) >> 64
    order[last], order[other] = order[other], order[last]
print("faces_split.rs", sorted(order[:4]))
