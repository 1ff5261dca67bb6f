# SPDX-License-Identifier: LGPL-2.1-or-later
"""A system bus of the test's own, with the policy that is installed, a client on it, and the daemon."""

import contextlib
import os
import pathlib
import signal
import subprocess

import dbus
import dbus.bus
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib
from servicetest import ROOT, Daemon, bench, boot_usec, check, finish, note, pumps, wait_for
from test_service import USER, Bench

NAME = "org.shrinkwatch1"
MANAGER = NAME + ".Manager"
PROPERTIES = "org.freedesktop.DBus.Properties"
UNKNOWN = 2**64 - 1

LAST = """
[Bus]
WatchSubtrees={watch}
"""
# A user without any right.
OTHER = 2

# What Debian's /usr/share/dbus-1/system.conf says of who may what.
CONF = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Introspectable"/>
    <allow send_destination="org.freedesktop.DBus" send_interface="org.freedesktop.DBus.Properties"/>
  </policy>
  <include>{policy}</include>
</busconfig>
"""


class Broker:
    """dbus-daemon."""

    def __init__(self, directory, user):
        self.socket = directory / "bus"
        self.address = f"unix:path={self.socket}"
        policy = directory / "policy.conf"
        text = (ROOT / "units" / "org.shrinkwatch1.conf").read_text()
        # The daemon of the tests runs as another user than the service.
        assert text.count('user="shrinkwatch"') == 1
        policy.write_text(text.replace('user="shrinkwatch"', f'user="{user}"'))
        self.conf = directory / "bus.conf"
        self.conf.write_text(CONF.format(socket=self.socket, policy=policy))
        self.child = None

    def start(self):
        self.socket.unlink(missing_ok=True)
        self.child = subprocess.Popen(["dbus-daemon", f"--config-file={self.conf}", "--nofork", "--nopidfile", "--nosyslog"],
                                      stderr=subprocess.DEVNULL)
        wait_for(self.socket.exists)

    def stop(self):
        if self.child:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait()
        self.child = None


class Client:
    """A connection as root, with the signals that came."""

    def __init__(self, address):
        DBusGMainLoop(set_as_default=True)
        self.bus = dbus.bus.BusConnection(address)
        self.bus.set_exit_on_disconnect(False)
        self.signals = []  # (path, interface, member, arguments)
        self.bus.add_signal_receiver(self._on_signal, sender_keyword=None, path_keyword="path", interface_keyword="interface",
                                     member_keyword="member")

    def _on_signal(self, *arguments, path=None, interface=None, member=None):
        self.signals.append((str(path), str(interface), str(member), arguments))

    def close(self):
        self.bus.close()

    def pump(self):
        context = GLib.MainContext.default()
        while context.iteration(False):
            pass

    def call(self, method, *arguments, path="/org/shrinkwatch1", interface=MANAGER, timeout=60):
        return self.bus.call_blocking(NAME, path, interface, method, None, arguments, timeout=timeout)

    def typed(self, method, signature, *arguments, path="/org/shrinkwatch1", interface=MANAGER, timeout=60):
        return self.bus.call_blocking(NAME, path, interface, method, signature, arguments, timeout=timeout, byte_arrays=True)

    def get_all(self, path="/org/shrinkwatch1", interface=MANAGER):
        return plain(self.typed("GetAll", "s", interface, path=path, interface=PROPERTIES))

    def managed(self):
        return plain(self.call("GetManagedObjects", interface="org.freedesktop.DBus.ObjectManager"))

    def has_name(self):
        return self.bus.name_has_owner(NAME)

    def of(self, member, path=None):
        self.pump()
        return [(p, plain(a)) for p, i, m, a in self.signals if m == member and (path is None or p == path)]

    def error(self, method, signature, *arguments, **more):
        """The name of the error that this call has."""
        try:
            self.typed(method, signature, *arguments, **more)
        except dbus.DBusException as error:
            return error.get_dbus_name()
        return None


def plain(value):
    """Without D-Bus' types; bytes for ay."""
    if isinstance(value, bytes) or (isinstance(value, dbus.Array) and value.signature == "y"):
        return bytes(value)
    if isinstance(value, dict):
        return {plain(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dbus.Boolean):
        return bool(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int):
        return int(value)
    return str(value) if isinstance(value, str) else value


def path_bytes(path):
    return dbus.ByteArray(os.fsencode(path))


def as_user(uid, *command, address=None):
    """(status, what it printed) of a command run as another user, on this bus."""
    done = subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--init-groups", *command], text=True, check=False,
                          env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DBUS_SYSTEM_BUS_ADDRESS": address}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def xml_files():
    return sorted((pathlib.Path(ROOT) / "docs").glob("org.shrinkwatch1.*.xml"))


class BusBench(Bench):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.broker = Broker(self.directory, USER)
        self.broker.start()
        self.client = None

    def start(self, watch=None, more=""):
        self.write_conf()
        self.conf.write_text(self.conf.read_text() + LAST.format(watch=watch or f"{self.cgroups.name}/watched-*") + more)
        ready = self.supervisor.count("READY=1")
        daemon = Daemon(self.supervisor, ["--config", str(self.conf), "--state", str(self.state)], user=USER,
                        environment={"DBUS_SYSTEM_BUS_ADDRESS": self.broker.address})
        if not check("it gets ready", daemon.ready(ready + 1), daemon.errors()):
            daemon.end()
            finish()
        self.connect()
        if not check("its name is on the bus", wait_for(self.client.has_name), self.journal.messages()):
            daemon.end()
            finish()
        return daemon

    def connect(self):
        self.client = Client(self.broker.address)
        pumps[:] = [self.journal.read, self.supervisor.read, self.client.pump]

    def close(self):
        if self.client:
            pumps[:] = [self.journal.read, self.supervisor.read]
            with contextlib.suppress(dbus.DBusException):
                self.client.close()
        self.broker.stop()

    def path(self, name):
        return f"/{self.cgroups.name}/{name}"


def main(tests):
    """Each with a bus of its own."""
    begin = boot_usec()
    for test in tests:
        with bench() as parts:
            b = BusBench(*parts)
            try:
                test(b)
            finally:
                b.close()
                b.supervisor.empty()
    note(f"{(boot_usec() - begin) / 1e6:.1f} s")
    finish()
