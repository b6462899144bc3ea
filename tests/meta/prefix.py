"""Installs a build into a directory of its own, as a packager would, for tests that use it."""
import contextlib
import fcntl
import glob
import os
import re
import subprocess


class Prefix:
    """Where things are, and the environment in which a user would find them."""

    def __init__(self, root):
        found = glob.glob(os.path.join(root, "**", "howdah.pc"), recursive=True)
        if not found:
            raise AssertionError("howdah.pc was not installed")
        self.pkgconfig = os.path.dirname(found[0])
        self.libdir = os.path.dirname(self.pkgconfig)
        with open(found[0], encoding="utf-8") as f:
            text = f.read()
        installed = re.search(r"^prefix=(.*)$", text, re.M).group(1)
        self.prefix = root + installed
        # DESTDIR moved the tree, so the prefix in the file moves with it.
        with open(found[0], "w", encoding="utf-8") as f:
            f.write(re.sub(r"^prefix=.*$", "prefix=" + self.prefix, text, flags=re.M))

    def environment(self, **more):
        path = os.path.join(self.prefix, "bin") + os.pathsep + os.environ["PATH"]
        return dict(os.environ, PATH=path, LD_LIBRARY_PATH=self.libdir,
                    PKG_CONFIG_PATH=self.pkgconfig, **more)


@contextlib.contextmanager
def lock(path):
    with open(path, "w", encoding="utf-8") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def install(build, root):
    with lock(os.path.join(build, "install.lock")):
        done = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"],
                              env=dict(os.environ, DESTDIR=root), capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return Prefix(root)
