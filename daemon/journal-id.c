/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What each message is to the journal: its id, which units/shrinkwatch.catalog explains, and how much it matters. */
#include <syslog.h>

#include "journal.h"

/* An id is for ever: a message that comes to mean something else gets a new one. */
static const struct {
        const char *id;
        int priority;
} messages[_JOURNAL_MESSAGE_MAX] = {
        [JOURNAL_WRITEBACK] = { "71fb1d0449514b91b88f68421652a29f", LOG_WARNING },
        [JOURNAL_SWAP] = { "f6e1f7e23580437db6bfd89e4fe94ec5", LOG_WARNING },
        [JOURNAL_SUBTREE] = { "2d6c6258cfb1452ea0e53b4a43386f0d", LOG_WARNING },
        [JOURNAL_HOST] = { "e74f107b6bad468bbfa19b4c3f5de507", LOG_WARNING },
        [JOURNAL_DYING] = { "9108f7cc17254065baae3f36247e3954", LOG_WARNING },
        [JOURNAL_DYING_GROWTH] = { "f14dfd377152405999c8a390d57fdd93", LOG_WARNING },
        [JOURNAL_STRANDED] = { "574e83fcfdef4e1c90818677065a32bf", LOG_WARNING },
        /* Without a free id no memory cgroup can be made: services and containers no longer start. */
        [JOURNAL_MEMCG_IDS] = { "37c9a3da37614ef695bd3d15d3c8fac3", LOG_ERR },
        [JOURNAL_DEGRADED] = { "3b721c02275d4b04bb30c6928cd6b70d", LOG_WARNING },
        [JOURNAL_CLEARED] = { "7513755bb34346c6a20394a4733f5e68", LOG_NOTICE },
        [JOURNAL_STORM] = { "3893a126ce334204bfadd8d29f642489", LOG_WARNING },
        [JOURNAL_MORE] = { "8e8b6109c5a84751be76852c0f77e674", LOG_WARNING },
        [JOURNAL_STARTED] = { "e78a9bf43a1c4007925e571c969c5f01", LOG_INFO },
        [JOURNAL_FIRST_CENSUS] = { "12f37c7e33e843b69a2c4d491ac438b2", LOG_INFO },
        [JOURNAL_STOPPED] = { "90812c3812584610b5f42eed2e06172f", LOG_INFO },
        [JOURNAL_CANNOT_START] = { "340a4d4bc0114718ac6e7149f2223f1f", LOG_ERR },
        [JOURNAL_RELOADED] = { "a17a0ae5dfaf403e826f9db942120747", LOG_INFO },
        [JOURNAL_CONF] = { "45bb0d493ff7469995a4c6bb4fbc185b", LOG_WARNING },
        [JOURNAL_RELOAD_REFUSED] = { "1697c628bf164b23b52787f81416e441", LOG_ERR },
        [JOURNAL_CENSUS_FAILED] = { "f306c90f76824f708fd7895fecedbb65", LOG_WARNING },
        [JOURNAL_RATES] = { "e8ad821bc5c344a6bacf3b82ebdb603a", LOG_INFO },
        [JOURNAL_BUS] = { "ee954833e5964bf48373d571c7f231a4", LOG_WARNING },
        [JOURNAL_LOST] = { "294cdf788a2047f8907054f64f76bd4f", LOG_WARNING },
        [JOURNAL_STATE] = { "a91fdf24d63543c3a398de6200eb0a32", LOG_WARNING },
};

static bool message_is_known(JournalMessage message) {
        return message >= 0 && message < _JOURNAL_MESSAGE_MAX;
}

const char *journal_message_id(JournalMessage message) {
        return message_is_known(message) ? messages[message].id : NULL;
}

int journal_priority(JournalMessage message, bool raised) {
        int priority = message_is_known(message) ? messages[message].priority : LOG_WARNING;

        /* That something is over is good to know, and nothing to be woken for. */
        return !raised && priority < LOG_NOTICE ? LOG_NOTICE : priority;
}
