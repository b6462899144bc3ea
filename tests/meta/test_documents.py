#!/usr/bin/env python3
"""The documents name files, types and functions that exist, and have no long lines.

What stands in backticks is a name:

  a path       has a slash or the suffix of a source file.  It is looked for from the root, then in
               src/; one without a slash anywhere in the tree.  "*" stands for anything.
  a function   ends in "()".  Its definition, or a call of it, is in include/, src/ or sql/.
  a type       starts with hw_, howdah_, HW_ or HOWDAH_.  It is a word of include/ or src/.

In ARCHITECTURE.md a step of a walk starts with a file, and the functions that it names are in that
file.
"""
import fnmatch
import os
import re
import sys

import tap
import sources

LINE_MAX = 120
SUFFIXES = (".c", ".h", ".sql", ".py", ".sh", ".md", ".build")
FENCE = re.compile(r"^```.*?^```[ \t]*$", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
URL = re.compile(r"https?://\S+")
PATH = re.compile(r"[A-Za-z0-9_.*/-]+")
FUNCTION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\(\)")
STEP = re.compile(r"^ *[0-9]+\. `([^`]+)`:(.*?)(?=^ *[0-9]+\. |^$)", re.M | re.S)
TYPE = re.compile(r"(?:hw|howdah|HW|HOWDAH)_[A-Za-z0-9_]+")


# Roles of the default schema, what the tests set, and patterns of names.
NOT_IN_THE_CODE = {"howdah_publish", "howdah_read", "howdah_admin", "HOWDAH_TEST_PG",
                   "howdah_noun_verb", "hw_module_verb"}


def documents():
    return sources.files(".md")


def prose(text):
    """The text without what is fenced: examples name files of their own."""
    return FENCE.sub("", text)


class Tree:
    def __init__(self):
        self.files = [n for n in sources.files(*SUFFIXES) if not n.startswith("build")]
        self.base_names = {os.path.basename(n) for n in self.files}
        code = [n for n in self.files if n.startswith(("include/", "src/", "sql/"))]
        self.text = "\n".join(sources.read(n) for n in code)
        self.words = set(re.findall(r"\w+", self.text))
        self.called = set(re.findall(r"(\w+)\(", self.text))

    def has_path(self, name):
        if "/" not in name:
            return bool(fnmatch.filter(self.base_names, name))
        if "*" in name:
            return bool(fnmatch.filter(self.files, name) or fnmatch.filter(self.files, "src/" + name))
        return any(os.path.exists(os.path.join(tap.ROOT, place, name)) for place in ("", "src"))


def is_path(name):
    if not PATH.fullmatch(name) or name.startswith(("-", "/")):
        return False
    first = name.split("/")[0]
    known = os.path.isdir(os.path.join(tap.ROOT, first)) or os.path.isdir(os.path.join(tap.ROOT, "src", first))
    return name.endswith(SUFFIXES) or ("/" in name and known)


def missing_paths(tree, text):
    return [n for n in CODE.findall(prose(text)) if is_path(n) and not tree.has_path(n)]


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+?)\s*$", prose(text), re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


def missing_links(name, text):
    found = []
    for link in (t for t in LINK.findall(prose(text)) if not URL.match(t)):
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(tap.ROOT, target)) or (
                anchor and anchor not in anchors(sources.read(target) if path else text)):
            found.append(link)
    return found


def missing_names(tree, text):
    found = []
    for name in CODE.findall(prose(text)):
        function = FUNCTION.fullmatch(name)
        if function and function.group(1) not in tree.called:
            found.append(name)
        elif TYPE.fullmatch(name) and name not in tree.words | NOT_IN_THE_CODE:
            found.append(name)
    return found


def strangers(text):
    """Functions that a step of a walk names, and that are not in the step's file."""
    found = []
    for path, step in STEP.findall(text):
        place = path if os.path.exists(os.path.join(tap.ROOT, path)) else "src/" + path
        called = set(re.findall(r"(\w+)\(", sources.read(place)))
        found += ["%s: %s()" % (path, f) for f in FUNCTION.findall(step) if f not in called]
    return found


def long_lines(text):
    """Numbers of lines that are too long, but for a URL, which cannot be broken."""
    return [number for number, line in enumerate(text.split("\n"), 1)
            if len(line) > LINE_MAX and len(URL.sub("", line)) > LINE_MAX]


TREE = Tree()
NOT_THERE = "`src/bus/no_such_file.c` and `no_such_function()`, `hw_no_such_type`, [x](no/such.md)"


def a_file_a_function_a_type_and_a_link_that_do_not_exist_are_found():
    assert missing_paths(TREE, NOT_THERE) == ["src/bus/no_such_file.c"]
    assert missing_names(TREE, NOT_THERE) == ["no_such_function()", "hw_no_such_type"]
    assert missing_links("README.md", NOT_THERE) == ["no/such.md"]
    assert missing_links("README.md", "## A place\n[x](#a-place) [y](#another)") == ["#another"]


def what_is_no_name_of_the_tree_is_left_alone():
    text = "`FILE-wal`, `--gap-policy`, `and/or`, `jobs`, `(stream, version)` and\n```\n`x.c`\n```\n"
    assert missing_paths(TREE, text) == [] and missing_names(TREE, text) == []


def a_long_line_is_found_unless_a_url_makes_it_long():
    assert long_lines("x" * 121) == [1]
    assert long_lines("see https://example.org/" + "x" * 121) == []


def every_path_in_backticks_exists():
    problems = ["%s: %s" % (n, p) for n in documents() for p in missing_paths(TREE, sources.read(n))]
    assert not problems, "\n".join(problems)


def every_link_to_a_file_leads_somewhere():
    problems = ["%s: %s" % (n, p) for n in documents() for p in missing_links(n, sources.read(n))]
    assert not problems, "\n".join(problems)


def every_function_and_type_in_backticks_exists():
    problems = ["%s: %s" % (n, p) for n in documents() for p in missing_names(TREE, sources.read(n))]
    assert not problems, "\n".join(problems)


def a_function_that_is_not_in_the_file_of_its_step_is_found():
    assert strangers("1. `base/buf.c`: `hw_buf_put()`,\n   then `hw_upcast()`.\n\n") == [
        "base/buf.c: hw_upcast()"]


def the_walks_name_functions_of_the_files_they_pass():
    text = sources.read("ARCHITECTURE.md")
    assert len(STEP.findall(text)) > 20
    assert not strangers(text), "\n".join(strangers(text))


def no_line_of_a_document_is_too_long():
    problems = ["%s:%d" % (n, number) for n in documents() for number in long_lines(sources.read(n))]
    assert not problems, "longer than %d characters:\n%s" % (LINE_MAX, "\n".join(problems))


sys.exit(tap.run([
    a_file_a_function_a_type_and_a_link_that_do_not_exist_are_found,
    what_is_no_name_of_the_tree_is_left_alone,
    a_long_line_is_found_unless_a_url_makes_it_long,
    every_path_in_backticks_exists,
    every_link_to_a_file_leads_somewhere,
    every_function_and_type_in_backticks_exists,
    a_function_that_is_not_in_the_file_of_its_step_is_found,
    the_walks_name_functions_of_the_files_they_pass,
    no_line_of_a_document_is_too_long,
]))
