#!/usr/bin/env python3
"""Plants mistakes in copies of the library's sources, for the simulator to find.

  plant.py SOURCE... COPY...     as many copies as sources, in the same order

Each edit below names a piece of code, wherever in the sources it is, and what is done wrong there
while PLANTED(name) is true (planted.h).  White space does not matter in a piece of code.  One that is
not found exactly once ends the build: whoever changes that code says here how it is done wrong now.
"""
import re
import sys

HEADER = '#include "planted.h"\n'

# (the piece of code, the same with its mistake; @ stands for the piece itself)
EDITS = [
    # A hole is dropped when it is old, without proof or record.
    ("(void)hw_sub_ops_of(sub->bus)->blockers(sub->bus->store, on_blocker, sub, NULL);",
     """@
     if (PLANTED(GAP_TIMEOUT))
         sub->bus->service->reader.frontier.holes_n = 0;"""),

    # The checkpoint does not say what is outstanding.
    (".outstanding_n = outstanding->n,",
     ".outstanding_n = PLANTED(AHEAD_IN_MEMORY) ? 0 : outstanding->n,"),

    # What stands still is not looked for when its holder has gone.
    ("*ret_touched = s >= 0 && x.touched.n > 0;",
     "*ret_touched = s >= 0 && x.touched.n > 0 && !PLANTED(STILL_FORGOTTEN);"),

    # Rows, then evidence, then the verdict.
    ("int s = hw_holes_look(bus, &looked, &alive, reterr);",
     "int s = PLANTED(ROWS_BEFORE_PROOF) ? HOWDAH_OK : hw_holes_look(bus, &looked, &alive, reterr);"),
    ("s = read_edge(bus, page, &whole, reterr);",
     """@
     if (PLANTED(ROWS_BEFORE_PROOF) && s >= 0)
         s = hw_holes_look(bus, &looked, &alive, reterr);"""),

    # A page that is full tells what is missing after it, too.
    ("looked && reader->read_upto < INT64_MAX",
     "@ && !PLANTED(FULL_PAGE_WHOLE)"),

    # The checkpoint is stored before the handler runs.
    ("delivery.tx = t->tx;",
     """@
     if (PLANTED(CHECKPOINT_FIRST) && !t->tx)
         return on_handled(t, event) && store_checkpoint(t) &&
                call_handler(t, seen, &delivery) == HOWDAH_HANDLED;"""),

    # LISTEN when there is nothing left to read.
    ("if (s >= 0) s = relisten(bus, reterr);",
     "if (s >= 0 && !PLANTED(CATCH_UP_FIRST)) s = relisten(bus, reterr);"),
    ("if (service->worked) hw_service_heard(bus, news);",
     """if (PLANTED(CATCH_UP_FIRST) && s >= 0 && !service->worked && service->pause.armed)
         s = relisten(bus, reterr);
     @"""),
]


def finder(piece):
    """Matches the piece, however its lines are broken."""
    words = re.findall(r"\w+|[^\w\s]", piece)
    parts = [re.escape(words[0])]
    for before, word in zip(words, words[1:]):
        parts.append(r"\s+" if re.match(r"\w", before[-1]) and re.match(r"\w", word) else r"\s*")
        parts.append(re.escape(word))
    return re.compile(r"(?<!\w)" + "".join(parts))


def plant(texts):
    for piece, mistake in EDITS:
        find = finder(piece)
        found = [(i, match) for i, text in enumerate(texts) for match in find.finditer(text)]
        if len(found) != 1:
            sys.exit("plant.py: found %d times, not once: %s" % (len(found), piece))
        i, match = found[0]
        done = mistake.replace("@", match.group())
        texts[i] = texts[i][:match.start()] + done + texts[i][match.end():]


def main(names):
    sources, copies = names[:len(names) // 2], names[len(names) // 2:]
    texts = []
    for name in sources:
        with open(name, encoding="utf-8") as f:
            texts.append(f.read())
    plant(texts)
    for name, text in zip(copies, texts):
        with open(name, "w", encoding="utf-8") as f:
            f.write(HEADER + text)


if __name__ == "__main__":
    main(sys.argv[1:])
