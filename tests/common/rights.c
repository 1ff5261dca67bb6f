/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "daemon/util.h"
#include "rights.h"

int set_capabilities(uint64_t set) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = {};

        for (unsigned i = 0; i < 2; i++)
                data[i].effective = data[i].permitted = data[i].inheritable = (uint32_t)(set >> 32 * i);
        return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

uint64_t get_capabilities(void) {
        struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[2] = {};

        if (syscall(SYS_capget, &header, data) < 0)
                return UINT64_MAX;
        return (uint64_t)data[0].permitted | (uint64_t)data[1].permitted << 32 | data[0].effective | (uint64_t)data[1].effective << 32;
}

int become(uint64_t set) {
        for (int cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
                if (!(set & BIT(cap)) && prctl(PR_CAPBSET_DROP, cap) < 0)
                        return -errno;
        if (prctl(PR_SET_KEEPCAPS, 1) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0)
                return -errno;
        if (set_capabilities(set) < 0)
                return -EPERM;
        (void)prctl(PR_SET_NO_NEW_PRIVS, 1);
        return get_capabilities() == set ? 0 : -EINVAL;
}
