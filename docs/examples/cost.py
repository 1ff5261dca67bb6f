#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""
What units cost the host in shrinker memory, over the bus, with the system's own bindings (python3-dbus): memory that no limit of theirs sees.

    cost.py nginx.service machine.slice

With --follow PATH: the same of a path, whenever it changes (root, the group shrinkwatch, or who polkit lets; python3-gi as well).
"""

import sys

import dbus

NAME, PATH = "org.shrinkwatch1", "/org/shrinkwatch1"
MANAGER, SUBTREE = NAME + ".Manager", NAME + ".Subtree"
UNKNOWN = 2**64 - 1


def mebibytes(number):
    return "?" if number == UNKNOWN else f"{number / 2**20:.1f} MiB"


def print_cost(name, overhead, dying_overhead, dying):
    print(f"{name}: {mebibytes(overhead)}, {mebibytes(dying_overhead)} of it by {dying} removed cgroups that are still there", flush=True)


def print_units(manager, names):
    status = 0
    for name in names:
        try:
            subtree = manager.GetUnit(name)
        except dbus.DBusException as error:
            print(f"{name}: {error.get_dbus_message()}", file=sys.stderr)
            status = 1
            continue
        print_cost(name, subtree["overhead_bytes"], subtree["overhead_dying_bytes"], subtree["dying"])
    return status


def follow(path):
    from dbus.mainloop.glib import DBusGMainLoop
    from gi.repository import GLib

    DBusGMainLoop(set_as_default=True)
    bus = dbus.SystemBus()
    manager = dbus.Interface(bus.get_object(NAME, PATH), MANAGER)
    # Paths are bytes: a cgroup's name need not be UTF-8.
    subtree = bus.get_object(NAME, manager.Watch(dbus.ByteArray(path.encode(errors="surrogateescape"))))
    properties = dict(subtree.GetAll(SUBTREE, dbus_interface=dbus.PROPERTIES_IFACE))

    def on_change(interface, changed, _):
        if interface == SUBTREE:
            properties.update(changed)
            print_cost(path, properties["OverheadBytes"], properties["OverheadDyingBytes"], properties["Dying"])

    subtree.connect_to_signal("PropertiesChanged", on_change, dbus_interface=dbus.PROPERTIES_IFACE)
    print_cost(path, properties["OverheadBytes"], properties["OverheadDyingBytes"], properties["Dying"])
    GLib.MainLoop().run()


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--follow":
        return follow(sys.argv[2])
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    bus = dbus.SystemBus()
    return print_units(dbus.Interface(bus.get_object(NAME, PATH), MANAGER), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
