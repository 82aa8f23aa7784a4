/* The fake backend of the tests, as the launch path sees it. Part of the module that has its
 * kernels. */
#ifndef AICF_BACKEND_FAKE_H
#define AICF_BACKEND_FAKE_H

#include <aicf/backend.h>

extern const aicf_backend aicf_backend_fake;

#endif
