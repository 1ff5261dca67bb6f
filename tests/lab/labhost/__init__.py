# SPDX-License-Identifier: LGPL-2.1-or-later
"""The host's side of the lab: fetch kernels, build initramfs images, boot guests, read results."""

import errno


class LabError(Exception):
    """Something a person can act on: the text says what and how; no traceback is shown."""


# What a file, a disk or a guest can bring about, and no fault of the lab's own needs: told in a line, without a traceback.
ERRORS = (LabError, OSError, ValueError)


def explain(error):
    """One of ERRORS in words."""
    if isinstance(error, LabError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            text += " (the lab writes to its cache, SHRINKWATCH_CACHE names another, and with --builddir to DIR/lab)"
        return text
    return f"{type(error).__name__}: {error}"
