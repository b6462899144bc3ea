#!/usr/bin/env python3
"""NULL is never a crash: each pointer of each public function, all of them and one by one.

Whatever can fail says MISUSE, or INVALID for a text that has a rule; what cannot gives back nothing.
"""
import ctypes
import sys

from library import CALLBACK, INVALID, MISUSE, Library, in_a_child, sized
import tap

library = Library(sys.argv[1])

# The pointers that may be NULL: what is left out has a default, or is not wanted back.
OPTIONAL = {
    "reterr", "ctx", "options", "settings", "ret_position", "ret_positions", "ret_pushed", "ret_n",
    "ret_id", "ret_worked", "ret_imported", "ret_removed", "ret_knowledge", "ret_record", "result",
    "error", "reason", "allocator", "fn", "ret_len", "schema", "block",
}
# Of these functions that is not true.
REQUIRED = {
    ("howdah_diff", "options"), ("howdah_import", "options"), ("howdah_purge", "options"),
    ("howdah_subscribe", "options"), ("howdah_worker_new", "options"),
    ("howdah_queue_options_set", "options"), ("howdah_dead_letters_discard", "reason"),
    ("howdah_queue_dead_letters_discard", "reason"), ("howdah_settings_set", "settings"),
    ("howdah_settings_load_environment", "settings"),
}
# And here a NULL means something: all of them, nothing to give back, an object that is not there.
FINE = {
    ("howdah_subscriptions_walk", "subscriber_id"), ("howdah_skips_walk", "subscriber_id"),
    ("howdah_dead_letters_redrive", "subscriber_id"), ("howdah_dead_letters_redrive", "ids"),
    ("howdah_queues_walk", "queue"), ("howdah_bindings_walk", "queue"),
    ("howdah_bindings_serve", "queue"), ("howdah_snapshots_walk", "stream"),
    ("howdah_webhooks_walk", "name"), ("howdah_group_fetch", "member"),
    ("howdah_unsubscribe", "subscription"), ("howdah_close", "bus"), ("howdah_queue_publish", "json"),
}


def has_to_be_there(function, at):
    name = function.parameters[at][1]
    if (function.name, name) in FINE:
        return False
    if (function.name, name) in REQUIRED:
        return True
    return name not in OPTIONAL or (name == "fn" and function.has_error())


def describe(function, arguments):
    return "%s(%s)" % (function.name, ", ".join(
        name if argument is not None else "NULL"
        for argument, (_, name) in zip(arguments, function.parameters)))


def judge(function, arguments, allowed):
    """allowed: the statuses that it may have; None: it must only come back."""
    got = in_a_child(lambda: library.call(function.name, *arguments))
    wrong = str(got).startswith("signal") if allowed is None else got not in allowed
    return ["%s: %s" % (describe(function, arguments), got)] if wrong else []


def call_with_nothing(function):
    places = range(len(function.parameters))
    needs = any(function.is_pointer(at) and has_to_be_there(function, at) for at in places)
    return judge(function, [None if function.is_pointer(at) else 0 for at in places],
                 (MISUSE, INVALID) if function.has_error() and needs else None)


def call_without(function, at, objects):
    arguments = [None if i == at else objects.get(kind)
                 for i, (kind, _) in enumerate(function.parameters)]
    return judge(function, arguments,
                 (MISUSE, INVALID) if function.has_error() and has_to_be_there(function, at)
                 else None)


def call_with_size(function, at, size, objects):
    arguments = [sized(size) if i == at else objects.get(kind)
                 for i, (kind, _) in enumerate(function.parameters)]
    return ["size %d: %s" % (size, wrong) for wrong in judge(function, arguments, (MISUSE,))]


# Structs that begin with a size, which the caller has to set.
SIZED = ("options", "ret_position", "ret_positions", "ret_pushed", "acks", "ret_record",
         "ret_knowledge", "correction", "job", "snapshot")


def takes_a_size(function, at):
    """With a handle that a child may have: not one of somebody else's library."""
    kinds = str(function.parameters)
    return (function.parameters[at][1] in SIZED and function.has_error() and
            "PGconn" not in kinds and "sqlite3" not in kinds)


class MemberOptions(ctypes.Structure):
    """howdah_member_options, up to what a member needs: what follows has its defaults."""
    _fields_ = [("size", ctypes.c_size_t), ("subscriber_id", ctypes.c_char_p), ("member", ctypes.c_char_p),
                ("max_events", ctypes.c_int64), ("lease_ms", ctypes.c_int64)]


class Objects:
    """One of each kind, on a bus in memory: each child has a copy of its own."""

    def __init__(self):
        made = library.made_by
        self.handler = library.keep(CALLBACK(lambda *_: 0))
        bus = made("howdah_open", b"sqlite::memory:", None, ..., None)
        assert library.call("howdah_migrate", bus, None, None) == 0
        builder = made("howdah_builder_new", ..., None)
        library.call("howdah_builder_set_stream", builder, b"s")
        library.call("howdah_builder_set_type", builder, b"t")
        event = made("howdah_builder_build", builder, ..., None)
        assert library.call("howdah_append", bus, event, None, None, None) == 0
        assert library.call("howdah_queue_publish", bus, b"q", None, None, None) == 0
        self.by_type = {
            "howdah_bus *": bus,
            "howdah_settings *": made("howdah_settings_new", ..., None),
            "howdah_builder *": builder,
            "howdah_event *": event,
            "howdah_reader *": made("howdah_reader_open_since", bus, 0, ..., None),
            "howdah_tail *": made("howdah_tail_open", bus, None, ..., None),
            "howdah_place *": made("howdah_place_new", b"1.9.0.0.1.0", ..., None),
            "howdah_jobs *": made("howdah_queue_claim", bus, b"q", 1, None, ..., None),
        }
        options = MemberOptions(ctypes.sizeof(MemberOptions), b"g", None, 10, 60000)
        member = made("howdah_member_new", bus, ctypes.addressof(options), ..., None)
        self.by_type["howdah_member *"] = member
        self.by_type["howdah_batch *"] = made("howdah_member_fetch", member, 0, ..., None)
        self.by_type["howdah_job *"] = library.call("howdah_jobs_at", self.by_type["howdah_jobs *"],
                                                    0)
        pointer = ctypes.c_void_p(event)
        self.by_type["howdah_event *const *"] = library.keep(ctypes.pointer(pointer))

    def get(self, kind):
        kind = kind.replace("const howdah", "howdah")
        if kind in self.by_type:
            return self.by_type[kind]
        if kind.startswith("(*)") or kind.endswith(("_handler", "_fn")):
            return self.handler
        if kind == "const char *":
            return b"x"
        if kind.startswith("howdah_") and kind.endswith(("_error *", "_options *", "_info *")):
            return sized(64 if not kind.startswith("howdah_error") else 864)
        if kind.startswith("howdah_") and kind.count("*") == 1 and not self.is_of_a_handler(kind):
            return sized(64)
        if "*" in kind or "[" in kind:
            return None if self.is_of_a_handler(kind) else ctypes.create_string_buffer(4096)
        return 1

    @staticmethod
    def is_of_a_handler(kind):
        """What only exists inside a handler, or belongs to somebody else's library."""
        return any(word in kind for word in ("howdah_work ", "howdah_delivery ", "howdah_upcast ",
                                             "howdah_worker *", "howdah_subscription *",
                                             "howdah_publisher *",
                                             "howdah_snapshot *", "PGconn", "sqlite3"))


def case(function, objects):
    def check():
        wrong = call_with_nothing(function)
        for at in range(len(function.parameters)):
            if len(function.parameters) > 1 and function.is_pointer(at):
                wrong += call_without(function, at, objects)
            if takes_a_size(function, at):
                for size in (0, 4, 13, 8192):
                    wrong += call_with_size(function, at, size, objects)
        assert not wrong, "\n".join(wrong)
    return "%s survives NULL" % function.name, check


if __name__ == "__main__":
    OBJECTS = Objects()
    sys.exit(tap.run([case(function, OBJECTS) for function in library.functions.values()]))
