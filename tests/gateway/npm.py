"""Packages of npm for a test, kept in the user's cache: the first run takes seconds, the others none."""
import os
import shutil
import subprocess
import tempfile

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "howdah-tests")


def install(*packages):
    """The folder node_modules that has them."""
    home = os.path.join(CACHE, "npm-" + "-".join(packages).replace("/", "_").replace("@", "_"))
    modules = os.path.join(home, "node_modules")
    if not os.path.isdir(modules):
        os.makedirs(CACHE, exist_ok=True)
        made = tempfile.mkdtemp(dir=CACHE)
        done = subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", made, *packages],
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        try:
            os.rename(made, home)
        except OSError:  # another run was first
            shutil.rmtree(made)
    return modules
