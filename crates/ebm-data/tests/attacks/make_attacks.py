"""Makes the hostile archives beside it. Bytes depend on nothing but this file: python3 make_attacks.py"""

import gzip
import io
import pathlib
import struct
import tarfile
import zipfile
import zlib

HERE = pathlib.Path(__file__).parent
DATE = (2020, 1, 1, 0, 0, 0)
MEGABYTE = 1 << 20


def zipped(name, entries):
    """Entries: (name, data, unix mode)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry, data, mode in entries:
            info = zipfile.ZipInfo(entry, DATE)
            info.create_system = 3
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return write(name, buffer.getvalue())


def write(name, data):
    (HERE / name).write_bytes(data)
    return data


def raw_zip(name, locals_, centrals):
    """Records as given: local (name, data, declared size), central (name, offset, packed, size, crc)."""
    out = b""
    offsets = []
    for entry, data, size in locals_:
        offsets.append(len(out))
        packed = deflate(data)
        out += struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0x5021, zlib.crc32(data), len(packed), size,
                           len(entry), 0) + entry + packed
    start = len(out)
    for entry, index, packed, size, crc in centrals:
        out += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 0x0314, 20, 0, 8, 0, 0x5021, crc, packed, size, len(entry),
                           0, 0, 0, 0, 0o100644 << 16, offsets[index]) + entry
    out += struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(centrals), len(centrals), len(out) - start, start, 0)
    return write(name, out)


def deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def zips():
    regular = 0o100644
    zipped("parent.zip", [("good.txt", b"good", regular), ("../escaped.txt", b"x", regular)])
    zipped("absolute.zip", [("/tmp/ebm-attack-escaped.txt", b"x", regular)])
    zipped("symlink.zip", [("link", b"..", 0o120777), ("link/escaped.txt", b"x", regular)])
    zipped("bomb.zip", [("zeros", bytes(8 * MEGABYTE), regular)])
    zipped("many.zip", [(f"{i:03}", b"", regular) for i in range(200)])
    whole = zipped("truncated.zip", [(f"{i}", bytes(range(256)), regular) for i in range(8)])
    write("truncated.zip", whole[: len(whole) // 2])

    data = b"some data, some data" * 9
    crc, packed = zlib.crc32(data), len(deflate(data))
    raw_zip("crc.zip", [(b"a", data, len(data))], [(b"a", 0, packed, len(data), crc ^ 1)])
    zeros = bytes(8 * MEGABYTE)
    raw_zip("lie.zip", [(b"a", zeros, 100)], [(b"a", 0, len(deflate(zeros)), 100, zlib.crc32(zeros))])


def tarred(name, entries, packed=False):
    """Entries: (name, data or None, {fields})."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry, data, fields in entries:
            info = tarfile.TarInfo(entry)
            info.size = len(data or b"")
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data) if data else None)
    out = buffer.getvalue()
    out = out if packed else out[: len(out.rstrip(b"\0")) // 512 * 512 + 1536]
    return write(name, gzip.compress(out, 9, mtime=0) if packed else out)


def tars():
    tarred("parent.tar", [("good.txt", b"good", {}), ("../escaped.txt", b"x", {})])
    tarred("absolute.tar", [("/tmp/ebm-attack-escaped.txt", b"x", {})])
    tarred("symlink.tar", [("link", None, {"type": tarfile.SYMTYPE, "linkname": ".."}), ("link/escaped.txt", b"x", {})])
    tarred("hardlink.tar", [("link", None, {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}), ("link", b"x", {})])
    tarred("device.tar", [("null", None, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3})])
    tarred("bomb.tar.gz", [("zeros", bytes(8 * MEGABYTE), {})], packed=True)
    tarred("many.tar.gz", [(f"{i:03}", b"", {}) for i in range(200)], packed=True)
    tarred("folders.tar.gz", [("/".join(f"{i}{j}" for j in range(40)) + "/f", b"x", {}) for i in range(2)], packed=True)

    header = tarfile.TarInfo("file")
    header.size = 4096
    block = header.tobuf(tarfile.GNU_FORMAT)
    write("truncated.tar", block + b"x" * 1024)
    write("unfinished.tar", block + b"x" * 4096)
    packed = tarred("crc.tar.gz", [("a.txt", b"some data", {})], packed=True)
    write("crc.tar.gz", packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:])


zips()
tars()
