/* Convolutions of 8-bit integers (see aicf/conv.h and aicf/requant.h) on the CPU, exact; a product
   of matrices is one whose windows are of one element. Bound by multiply-adds. One copy for all
   modules: libaicf's. */
#ifndef AICF_CPU_CONV_I8_H
#define AICF_CPU_CONV_I8_H

#include <aicf/conv.h>
#include <aicf/cpu/real.h>
#include <aicf/requant.h>

/* c: of fields and factors of one byte, and outs of c->item. */
aicf_status aicf_i8_run(const aicf_conv *c, const aicf_requant *r);

#endif
