"""Rewrites a GGUF file with Q8_0 or Q4_1 weights in F32.

    python plain.py FROM.gguf TO.gguf

llama.cpp rounds the inputs of products with such weights to 8 bits, the engine differently: both compute the
same only with unquantised weights.
"""

import array
import struct
import sys

Q4_1, Q8_0, F32 = 3, 8, 0
# Bytes of a block of 32 numbers.
BLOCKS = {Q4_1: 20, Q8_0: 34, F32: 128}
LOW = bytes(byte & 15 for byte in range(256))
HIGH = bytes(byte >> 4 for byte in range(256))
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, LIST = 8, 9


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, code):
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        length = self.scalar("Q")
        self.at += length
        return self.data[self.at - length : self.at]

    def skip(self, kind):
        """Skips a value; returns it if it is a number."""
        if kind == TEXT:
            self.text()
        elif kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            for _ in range(count):
                self.skip(inner)
        else:
            return self.scalar(SCALARS[kind])
        return None


def of_q8_0(blocks):
    """A 16-bit scale, then 32 codes."""
    for at in range(0, len(blocks), 34):
        (scale,) = struct.unpack_from("<e", blocks, at)
        yield [scale * code for code in struct.unpack_from("<32b", blocks, at + 2)]


def of_q4_1(blocks):
    """A 16-bit scale and minimum, then the low halves of 16 bytes, and their high halves."""
    for at in range(0, len(blocks), 20):
        scale, least = struct.unpack_from("<2e", blocks, at)
        numbers = [scale * code + least for code in range(16)]
        codes = blocks[at + 4 : at + 20]
        yield [numbers[code] for code in codes.translate(LOW) + codes.translate(HIGH)]


def plain(kind, blocks):
    """Dequantises blocks to F32 bytes."""
    if kind == F32:
        return blocks
    numbers = array.array("f")
    for block in {Q8_0: of_q8_0, Q4_1: of_q4_1}[kind](blocks):
        numbers.extend(block)
    return numbers.tobytes()


def main(source, target):
    with open(source, "rb") as file:
        data = file.read()
    reader = Reader(data)
    assert reader.scalar("I") == 0x46554747, "it is no GGUF file"
    reader.scalar("I")
    tensors, values = reader.scalar("Q"), reader.scalar("Q")
    alignment = 32
    for _ in range(values):
        key = reader.text()
        value = reader.skip(reader.scalar("I"))
        if key == b"general.alignment":
            alignment = value
    head, listed = bytearray(data[: reader.at]), []
    for _ in range(tensors):
        name = reader.text()
        shape = [reader.scalar("Q") for _ in range(reader.scalar("I"))]
        listed.append((name, shape, reader.scalar("I"), reader.scalar("Q")))
    begin = -(-reader.at // alignment) * alignment
    body = bytearray()
    for name, shape, kind, offset in listed:
        count = 1
        for length in shape:
            count *= length
        assert kind in BLOCKS, f"{name} is neither Q8_0, Q4_1 nor F32"
        size = count * BLOCKS[kind] // 32
        numbers = data[begin + offset : begin + offset + size]
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", F32, len(body))
        body += plain(kind, numbers)
        body += bytes(-len(body) % alignment)
    head += bytes(-len(head) % alignment)
    with open(target, "wb") as file:
        file.write(head + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
