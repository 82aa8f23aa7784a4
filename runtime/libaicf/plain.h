/* The short way of prepare, for the call that is made most. */
#ifndef AICF_PLAIN_H
#define AICF_PLAIN_H

#include <aicf/call.h>

#pragma GCC visibility push(hidden)

/* Prepares an elementwise call of a known variant whose tensors are all dense and of one shape.
   False: it is not such a call, or something is wrong with it: then the long way says what.
   Whatever this takes the long way takes too, with the same result. */
bool plain_prepare(const aicf_tensor *t, aicf_call *call);

#pragma GCC visibility pop

#endif
