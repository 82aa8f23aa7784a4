/* For the sources of a family, which are compiled once an op: AICF_OP is its name. */
#ifndef AICF_FAMILY_H
#define AICF_FAMILY_H

/* #include AICF_OP_HEADER: the launchers of the op. */
#define AICF_OP_HEADER AICF_OP_HEADER_OF(AICF_OP)
#define AICF_OP_HEADER_OF(op) <aicf_ops/op.h>

/* AICF_OP_NAME(aicf_cpu_, _loop_f32): aicf_cpu_add_loop_f32 where the op is add. */
#define AICF_OP_NAME(before, after) AICF_OP_NAME_OF(before, AICF_OP, after)
#define AICF_OP_NAME_OF(before, op, after) AICF_OP_NAME_TOKENS(before, op, after)
#define AICF_OP_NAME_TOKENS(before, op, after) before##op##after

/* AICF_OP_CHOICE(FORMULA_): FORMULA_add where the op is add. Apart from the above, so that either
   may stand in what the other one gives. */
#define AICF_OP_CHOICE(before) AICF_OP_CHOICE_OF(before, AICF_OP)
#define AICF_OP_CHOICE_OF(before, op) AICF_OP_CHOICE_TOKENS(before, op)
#define AICF_OP_CHOICE_TOKENS(before, op) before##op

#endif
