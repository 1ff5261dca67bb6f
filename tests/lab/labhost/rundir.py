# SPDX-License-Identifier: LGPL-2.1-or-later
"""Directories of single guests: logs, the image, what the guest gave.

    DIR/running    there while the run lives, which holds it by flock

A run that is killed leaves its directory. The kernel drops the flock with the process, whatever ended it: an image beside a
file `running` that nobody holds is of a dead run. An orderly end removes `running`, so what --keep left is never touched.
"""

import contextlib
import fcntl
import tempfile
from pathlib import Path

IMAGE = "initramfs"
RUNNING = "running"


@contextlib.contextmanager
def made(parent, prefix):
    """A new directory in parent, known to be in use until the end of the block."""
    parent.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    with open(directory / RUNNING, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield directory
        finally:
            (directory / RUNNING).unlink(missing_ok=True)


def sweep(parent, say):
    """Remove the images of runs that were killed. Their logs stay."""
    for image in sorted(parent.glob(f"*/{IMAGE}")):
        running = image.with_name(RUNNING)
        try:
            with open(running, "r+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                image.unlink()
                running.unlink()
            say(f"# {image.parent}: removed the image of a run that was killed; its logs are there")
        except OSError:
            pass  # alive, ended in order, or not ours to remove
