/* The checks of a call up to the choice of its kernel, for prepare and for those who explain it. */
#ifndef AICF_PREPARE_H
#define AICF_PREPARE_H

#include "binding.h"

#pragma GCC visibility push(hidden)

/* Checks the first `params` parameters and all that the row says of them, and binds the dims. */
aicf_status
prepare_arguments(binding *b, const aicf_tensor *t, aicf_call *call, int params, int *backend);

/* The same for all parameters, outs included. */
aicf_status prepare_checks(binding *b, const aicf_tensor *t, aicf_call *call, int *backend);

#pragma GCC visibility pop

#endif
