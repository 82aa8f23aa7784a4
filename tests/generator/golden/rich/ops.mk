# Written by opgen from the table; edits are lost. What is to be built, as data; the rules are in
# $(AICF_INCLUDE)/aicf. `make -f ops.mk` builds the package, and a makefile may include this one; then
# the target is `aicf`. Set GEN (the folder of this file), B (where the outputs go), AICF_INCLUDE and
# AICF_RT (the built package aicf_rt); `make` is run where the paths of the kernels start.
AICF_INCLUDE ?= include
ifndef AICF_BUILD
include $(AICF_INCLUDE)/aicf/build.mk
endif

AICF_PACKAGE := rich
AICF_TABLE :=

AICF_TABLE += affine
affine.cuda += kernels/affine/affine_sm_90a.cu:sm_90a
affine.cuda += kernels/affine/affine_sm_80.cu:sm_80
affine.cuda += kernels/affine/affine.cu
affine.cpu += kernels/affine/affine.c

AICF_TABLE += join
join.cuda += kernels/join/join.cu
join.cpu += kernels/join/join.c
join.toy += kernels/join/join.toy.c

AICF_TABLE += update
update.cuda += kernels/update/update.cu
update.cpu += kernels/update/update.c

AICF_TABLE += cast
cast.cpu += kernels/cast/cast.c

AICF_TABLE += turn
turn.cpu += kernels/turn/turn.c

AICF_TABLE += fold
fold.cpu += kernels/fold/fold.c

AICF_TABLE += exp
exp.define := -DAICF_OP=exp
exp.cuda += kernels/unary/unary.cu
exp.cpu += kernels/unary/unary.c

AICF_TABLE += elu
elu.define := -DAICF_OP=elu
elu.cuda += kernels/unary/unary.cu
elu.cpu += kernels/unary/unary.c

include $(AICF_INCLUDE)/aicf/rules.mk
