# SPDX-License-Identifier: LGPL-2.1-or-later
"""The host's side of the lab: fetch kernels, build initramfs images, boot guests, read results."""


class LabError(Exception):
    """Something a person can act on: the text says what and how; no traceback is shown."""
