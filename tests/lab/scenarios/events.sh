# SPDX-License-Identifier: LGPL-2.1-or-later
# Life events: cgroups made, removed, released, as an ordinary user and over restarts, on this kernel.
# lab: hand="6.12 7.3-plain 7.3-units63 7.3-ondemand"
# lab: nodes=1 memory=768 timeout=600 programs=host-events,host-events-room,host-events-store

host_tests host-events host-events-room host-events-store
