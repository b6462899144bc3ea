"""The public functions, read from the headers, and a way to call each with whatever one likes.

A call happens in a child of its own: one that crashes is a result, not the end of the test.
"""
import ctypes
import os
import re
import struct
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "meta"))

MISUSE = -3
INVALID = -13
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


class Function:
    def __init__(self, result, name, parameters):
        self.result = result
        self.name = name
        self.parameters = parameters  # of (type, name)

    def has_error(self):
        return any(name == "reterr" for _, name in self.parameters)

    def is_pointer(self, at):
        kind = self.parameters[at][0]
        return "*" in kind or "[" in kind or kind in ("howdah_handler", "howdah_work_handler",
                                                      "howdah_upcast_fn", "howdah_log_fn")


def split(text):
    """At commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part.strip() for part in parts + [text[start:]]]


def parameter(text):
    """'const char *queue' as ('const char *', 'queue'); a callback as ('(*)', its name)."""
    callback = re.match(r".*?\(\*(\w+)\)\(.*\)$", text)
    if callback:
        return "(*)", callback.group(1)
    array = re.match(r"(.*?)(\w+)(\[\w*\])$", text)
    if array:
        return array.group(1) + array.group(3), array.group(2)
    plain = re.match(r"(.*?)(\w+)$", text)
    return plain.group(1).strip(), plain.group(2)


def functions():
    found = []
    folder = os.path.join(ROOT, "include", "howdah")
    for header in sorted(os.listdir(folder)):
        with open(os.path.join(folder, header), encoding="utf-8") as file:
            text = re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)
        text = re.sub(r"^#.*?(?<!\\)\n", "", text, flags=re.S | re.M)
        text = re.sub(r"\s+", " ", text)
        for result, name, inside in re.findall(
                r"HOWDAH_API (?:HOWDAH_MUST_CHECK )?([\w ]+?\*? ?)(howdah_\w+)\((.*?)\);", text):
            inside = [] if inside == "void" else [parameter(part) for part in split(inside)]
            found.append(Function(result.strip(), name, inside))
    return found


def sized(size, filled=b""):
    """A struct of so many bytes that begins with its size, zero but for what is given."""
    return ctypes.create_string_buffer(struct.pack("N", size) + filled +
                                       bytes(4096 - 8 - len(filled)), 4096)


class Library:
    def __init__(self, path):
        self.so = ctypes.CDLL(path)
        self.functions = {function.name: function for function in functions()}
        self.kept = []  # what C only points to

    def call(self, name, *arguments):
        function = self.functions[name]
        address = getattr(self.so, name)
        address.restype = (None if function.result == "void" else
                           ctypes.c_void_p if "*" in function.result else
                           ctypes.c_int64 if function.result in ("int64_t", "size_t") else
                           ctypes.c_int)
        return address(*[ctypes.c_int64(a) if isinstance(a, int) else a for a in arguments])

    def keep(self, thing):
        self.kept.append(thing)
        return thing

    def made_by(self, name, *arguments):
        """The object that a function hands out through the pointer at its place of ..."""
        slot = ctypes.c_void_p()
        status = self.call(name, *[ctypes.byref(slot) if a is Ellipsis else a for a in arguments])
        assert status == 0 and slot.value, "%s: %d" % (name, status)
        return slot.value


def in_a_child(work):
    """What work() returns, or "signal N"."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        os.write(write_end, repr(work()).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        text = answer.read().decode()
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "signal %d" % os.WTERMSIG(status)
    return eval(text) if text else "no answer"  # our own repr of a number or None
