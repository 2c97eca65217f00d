"""A small canvas that becomes a PNG, so that a picture needs no plotting library."""
from __future__ import annotations

import struct
import zlib

# Rows of 5 bits from top to bottom, for the characters that pictures here use.
_GLYPHS = {
    "0": "0E11131519110E", "1": "040C040404040E", "2": "0E11010204081F", "3": "1F02040201110E", "4": "02060A121F0202",
    "5": "1F101E0101110E", "6": "0608101E11110E", "7": "1F010204080808", "8": "0E11110E11110E", "9": "0E11110F01020C",
    "A": "0E11111F111111", "B": "1E11111E11111E", "C": "0E11101010110E", "D": "1C12111111121C", "E": "1F10101E10101F",
    "F": "1F10101E101010", "G": "0E11101711110F", "H": "1111111F111111", "I": "0E04040404040E", "J": "0702020202120C",
    "K": "11121418141211", "L": "1010101010101F", "M": "111B1515111111", "N": "11111915131111", "O": "0E11111111110E",
    "P": "1E11111E101010", "Q": "0E11111115120D", "R": "1E11111E141211", "S": "0F10100E01011E", "T": "1F040404040404",
    "U": "1111111111110E", "V": "11111111110A04", "W": "1111111515150A", "X": "11110A040A1111", "Y": "1111110A040404",
    "Z": "1F01020408101F", ".": "00000000000C0C", ",": "000000000C0408", ":": "000C0C000C0C00", "-": "0000001F000000",
    "%": "18190204081303", "/": "00010204081000", "(": "02040808080402", ")": "08040202020408", "=": "00001F001F0000",
    "+": "0004041F040400", "?": "0E110102040004", "!": "04040404040004",
}
GLYPH_WIDTH, GLYPH_HEIGHT = 6, 8


class Canvas:
    """An RGB image to draw on."""

    def __init__(self, width: int, height: int, background: tuple[int, int, int] = (255, 255, 255)) -> None:
        self.width, self.height = width, height
        self._pixels = bytearray(bytes(background) * (width * height))

    def dot(self, x: int, y: int, colour: tuple[int, int, int]) -> None:
        if 0 <= x < self.width and 0 <= y < self.height:
            at = 3 * (y * self.width + x)
            self._pixels[at:at + 3] = bytes(colour)

    def rectangle(self, x: int, y: int, width: int, height: int, colour: tuple[int, int, int]) -> None:
        left, right = max(x, 0), min(x + width, self.width)
        if right <= left:
            return
        row = bytes(colour) * (right - left)
        for line in range(max(y, 0), min(y + height, self.height)):
            at = 3 * (line * self.width + left)
            self._pixels[at:at + len(row)] = row

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: tuple[int, int, int], thickness: int = 1) -> None:
        steps = max(1, int(max(abs(x1 - x0), abs(y1 - y0))))
        for i in range(steps + 1):
            x, y = round(x0 + (x1 - x0) * i / steps), round(y0 + (y1 - y0) * i / steps)
            if thickness == 1:
                self.dot(x, y, colour)
            else:
                self.rectangle(x - thickness // 2, y - thickness // 2, thickness, thickness, colour)

    def text(self, x: int, y: int, text: str, colour: tuple[int, int, int] = (0, 0, 0), scale: int = 1) -> None:
        """Capital letters, digits and some signs; anything else is left blank."""
        for position, character in enumerate(text.upper()):
            glyph = bytes.fromhex(_GLYPHS.get(character, "00000000000000"))
            for row, bits in enumerate(glyph):
                for column in range(5):
                    if bits >> (4 - column) & 1:
                        self.rectangle(x + (position * GLYPH_WIDTH + column) * scale, y + row * scale, scale, scale, colour)

    def png(self) -> bytes:
        """The picture as a PNG file."""
        def chunk(kind: bytes, content: bytes) -> bytes:
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        stride = 3 * self.width
        rows = b"".join(b"\0" + self._pixels[y * stride:(y + 1) * stride] for y in range(self.height))     # filter 0 on every row
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")

    def save(self, path) -> None:
        with open(path, "wb") as file:
            file.write(self.png())
