"""What a scenario says: variables, patterns, and payloads to the byte.  README.md has the format."""
import json
import re

SCANNER = json.decoder.scanstring
WHITE = re.compile(r"[ \t\n\r]*")
SCALAR = re.compile(r"[^,\]}\s]+")
REPEATED = re.compile(r"\{(.)\*(\d+)\}", re.S)
VARIABLE = re.compile(r"\$([a-z_]+[0-9]*)$")


class Unsayable(Exception):
    """A step that this face has no words for; its text says why."""


class Refusal(Exception):
    """What a face refuses: the codes that it can mean, and what it says about it.  A member that is not there cannot be
    told on this face; None: it says that there is none."""

    def __init__(self, codes, message, **members):
        super().__init__(message)
        self.codes = [codes] if isinstance(codes, str) else codes
        self.members = members


# ---- JSON whose payloads keep their text

def _value(text, at):
    at = WHITE.match(text, at).end()
    if text[at] == '"':
        return SCANNER(text, at + 1)
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _list(text, at)
    end = SCALAR.match(text, at).end()
    return json.loads(text[at:end]), end


def _list(text, at):
    found = []
    at = WHITE.match(text, at + 1).end()
    while text[at] != "]":
        value, at = _value(text, at)
        found.append(value)
        at = WHITE.match(text, at).end()
        if text[at] == ",":
            at = WHITE.match(text, at + 1).end()
    return found, at + 1


def _object(text, at):
    found = {}
    at = WHITE.match(text, at + 1).end()
    while text[at] != "}":
        key, at = SCANNER(text, at + 1)
        begin = WHITE.match(text, WHITE.match(text, at).end() + 1).end()  # behind the colon
        value, at = _value(text, begin)
        found[key] = value
        if key == "data":
            found["data_text"] = text[begin:at]
        at = WHITE.match(text, at).end()
        if text[at] == ",":
            at = WHITE.match(text, at + 1).end()
    return found, at + 1


def parse(text):
    """As json.loads(); beside each member "data" of an object there is "data_text", as it was written."""
    return _value(text, 0)[0]


def lines(text):
    return [parse(line) for line in text.split("\n") if line.strip()]


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def body_of(arguments, leave_out=()):
    """The JSON object of arguments, the payload as its data_text has it."""
    data = arguments.get("data_text")
    rest = compact({key: value for key, value in arguments.items() if key not in ("data_text", *leave_out)})
    if data is None:
        return rest
    return rest[:-1] + ("," if len(rest) > 2 else "") + '"data":' + data + "}"


# ---- a member and a worker, of the smaller steps

def fails(given):
    """Whether a handler of this suite fails it."""
    return isinstance(given.get("data"), dict) and bool(given["data"].get("fail"))


def handle(face, arguments):
    """A member takes what there is, until there is nothing."""
    name = {"name": arguments["name"]}
    seen = []
    while True:
        batch = face.run("fetch", name)
        if not batch["events"]:
            return {"events": seen}
        held = dict(name, token=batch["token"])
        failed = [event["global_sequence"] for event in batch["events"] if fails(event)]
        seen += batch["events"]
        for sequence in failed:
            face.run("nack", dict(held, global_sequence=sequence, error="failed on purpose"))
        try:
            face.run("ack", held)
        except Refusal as refusal:  # with a failure, a batch that was tried again is over
            if "LOST" not in refusal.codes or not failed:
                raise


def work(face, arguments):
    """A worker does what there is, until there is nothing."""
    seen = []
    while True:
        jobs = face.run("claim", {"queue": arguments["queue"], "max": 1})["jobs"]
        if not jobs:
            return {"jobs": seen}
        seen += jobs
        held = {"id": jobs[0]["id"], "token": jobs[0]["token"]}
        if fails(jobs[0]):
            face.run("fail", dict(held, error="failed on purpose"))
        else:
            face.run("complete", held)


# ---- what is given

def fill(value, variables):
    """A step's arguments with variables and {x*N} in place; a payload becomes its text."""
    if isinstance(value, str):
        named = VARIABLE.match(value)
        if named:
            return variables[named.group(1)]
        value = value.replace("{n}", variables["n"])
        return REPEATED.sub(lambda found: found.group(1) * int(found.group(2)), value)
    if isinstance(value, list):
        return [fill(item, variables) for item in value]
    if isinstance(value, dict):
        filled = {fill(key, variables): fill(item, variables) for key, item in value.items()}
        if "data" in filled:
            filled["data_text"] = compact(filled.pop("data"))
        return filled
    return value


# ---- what is expected

def differs(expected, given, variables, path="answer"):
    """None, or how the answer is not as expected.  "$name" takes what is there the first time, and compares afterwards;
    "~REGEX" has to match all of it; of an object only what is named counts."""
    if isinstance(expected, str) and VARIABLE.match(expected):
        name = VARIABLE.match(expected).group(1)
        if name not in variables:
            if given is None:
                return "%s is missing" % path
            variables[name] = given
            return None
        expected = variables[name]
    elif isinstance(expected, str) and expected.startswith("~"):
        fits = given is not None and re.fullmatch(expected[1:], str(given))
        return None if fits else "%s is %.300r, not like %s" % (path, given, expected[1:])
    elif isinstance(expected, str):
        expected = fill(expected, variables)
    if isinstance(expected, dict):
        if not isinstance(given, dict):
            return "%s is %.300r" % (path, given)
        for key, value in expected.items():
            why = differs(value, given.get(key), variables, "%s.%s" % (path, key))
            if why:
                return why
        return None
    if isinstance(expected, list):
        if not isinstance(given, list) or len(given) != len(expected):
            return "%s has %s, not %d: %.600r" % (
                path, len(given) if isinstance(given, list) else "nothing", len(expected), given)
        for i, value in enumerate(expected):
            why = differs(value, given[i], variables, "%s[%d]" % (path, i))
            if why:
                return why
        return None
    same = given == expected and isinstance(given, bool) == isinstance(expected, bool)
    return None if same else "%s is %.300r, not %.300r" % (path, given, expected)
