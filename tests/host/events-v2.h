/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Included before daemon/events.c when it is built a second time, as version 2: the daemon that an upgrade brings, beside the one
 * there is.
 */
#pragma once

#define SW_EVENTS_VERSION 2

#define events_origin_to_string events_v2_origin_to_string
#define events_new events_v2_new
#define events_free events_v2_free
#define events_origin events_v2_origin
#define events_fds events_v2_fds
#define events_dropped events_v2_dropped
#define events_fd events_v2_fd
#define events_drain events_v2_drain
#define events_counts events_v2_counts
#define events_deaths events_v2_deaths
#define events_put events_v2_put
#define events_forget events_v2_forget
#define events_max_deaths events_v2_max_deaths
