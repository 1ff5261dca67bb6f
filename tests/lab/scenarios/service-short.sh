# SPDX-License-Identifier: LGPL-2.1-or-later
# The service as a host has it, in short: installed, enabled, a finding of swap told and cleared, killed and restarted without losing an age.
# lab: kernels="7.3 7.3-*" hand="7.3 7.3-plain 7.3-units63"
# lab: root=debian13 install=yes nodes=2 memory=1536 timeout=900 programs="shrinkwatchctl" files=guest/service.sh

. /lab/service.sh

service_install
service_sandbox
service_swap
service_kill
service_bus
service_remove
