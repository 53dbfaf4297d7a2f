"""Writes a GGUF file whose weights are Q8_0 anew with plain numbers (F32).

    python plain.py FROM.gguf TO.gguf

llama.cpp rounds what it multiplies Q8_0 by to 8 bits, the engine does not: only with plain numbers do both
compute the same.
"""

import array
import struct
import sys

Q8_0, F32 = 8, 0
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
        """Passes over a value; gives it where it is a number."""
        if kind == TEXT:
            self.text()
        elif kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            for _ in range(count):
                self.skip(inner)
        else:
            return self.scalar(SCALARS[kind])
        return None


def plain(blocks):
    """Numbers of Q8_0 blocks: a scale of 16 bits, then 32 codes."""
    numbers = array.array("f")
    for at in range(0, len(blocks), 34):
        (scale,) = struct.unpack_from("<e", blocks, at)
        numbers.extend(scale * code for code in struct.unpack_from("<32b", blocks, at + 2))
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
        assert kind in (Q8_0, F32), f"{name} is neither Q8_0 nor F32"
        size = count // 32 * 34 if kind == Q8_0 else count * 4
        numbers = data[begin + offset : begin + offset + size]
        head += struct.pack("<Q", len(name)) + name + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", F32, len(body))
        body += plain(numbers) if kind == Q8_0 else numbers
        body += bytes(-len(body) % alignment)
    head += bytes(-len(head) % alignment)
    with open(target, "wb") as file:
        file.write(head + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
