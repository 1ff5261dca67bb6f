# SPDX-License-Identifier: LGPL-2.1-or-later
# The service on Debian 12 under 6.1: installed, enabled; a finding of swap, crash, restart, stop.
# lab: hand=* kernels="6.1"
# lab: root=debian12 install=yes nodes=2 memory=1536 timeout=1500 programs="shrinkwatchctl lab-load shrinkwatchd-v2" files=guest/service.sh

. /lab/service.sh

service_install
service_sandbox
service_swap
service_kill
service_restarts
service_versions
service_reload
service_bus
service_remove
