"""The project's own files, for the checks that look at all of them."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = {".git", "__pycache__"}


def walk():
    """Every file below the root, for a tree without git: a tarball."""
    for base, dirs, names in os.walk(ROOT):
        dirs[:] = [d for d in dirs if d not in SKIPPED and not d.startswith("build")]
        for name in names:
            yield os.path.relpath(os.path.join(base, name), ROOT)


def listed():
    """Tracked files and new ones that are not ignored; None without git."""
    try:
        out = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "-z"],
            check=True, capture_output=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return out.decode().split("\0")


def files(*suffixes):
    """Paths relative to the root, sorted; all files when no suffix is given."""
    names = listed()
    if names is None:
        names = walk()
    return sorted({name for name in names
                   if name and (not suffixes or name.endswith(suffixes))
                   and os.path.isfile(os.path.join(ROOT, name))})


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8", errors="replace") as f:
        return f.read()
