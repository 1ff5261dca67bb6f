# SPDX-License-Identifier: LGPL-2.1-or-later
# The service as a host has it: installed, enabled, booted with; findings of writeback and swap in the journal, and every way to end it.
# lab: hand=* kernels="6.12 7.3 7.3-*"
# lab: root=debian13 install=yes nodes=2 memory=2048 timeout=1800 programs="shrinkwatchctl lab-load shrinkwatchd-v2" files=guest/service.sh

. /lab/service.sh

service_install
service_sandbox
service_findings
service_kill
service_restarts
service_versions
service_watchdog
service_reload
service_trouble
service_churn
service_bus
service_remove
