"""Prints confusables.txt: python3 confusables.py > confusables.txt, on Debian 12, whose package libicu72 has the table of Unicode 15.0.

Each line is a character and what it looks like, both decomposed (NFD): the prototype of UTS 39, as ICU's spoof checker has it.
Pairs of two Han characters are left out: a reader of Chinese or Japanese tells them apart, as in two names of one class.
"""
import ctypes, unicodedata

ICU = "72"
icu = ctypes.CDLL("libicui18n.so." + ICU)
status = ctypes.c_int(0)
opener, skeleton = icu["uspoof_open_" + ICU], icu["uspoof_getSkeletonUTF8_" + ICU]
opener.restype = ctypes.c_void_p
checker = ctypes.c_void_p(opener(ctypes.byref(status)))
out = ctypes.create_string_buffer(256)
for code in range(0x21, 0x110000):
    char = chr(code)
    if 0xD800 <= code < 0xE000 or unicodedata.normalize("NFD", char) != char:
        continue
    given = char.encode()
    n = skeleton(checker, ctypes.c_uint32(0), given, len(given), out, len(out), ctypes.byref(status))
    assert status.value <= 0, status
    prototype = out.raw[:n].decode()
    if prototype not in (char, "") and not all("CJK UNIFIED" in unicodedata.name(c, "") for c in char + prototype):
        print(char + prototype)
