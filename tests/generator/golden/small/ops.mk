# Written by opgen from the table; edits are lost. What is to be built, as data; the rules are in
# $(AICF_INCLUDE)/aicf. `make -f ops.mk` builds the package, and a makefile may include this one; then
# the target is `aicf`. Set GEN (the folder of this file), B (where the outputs go), AICF_INCLUDE and
# AICF_RT (the built package aicf_rt); `make` is run where the paths of the kernels start.
AICF_INCLUDE ?= include
ifndef AICF_BUILD
include $(AICF_INCLUDE)/aicf/build.mk
endif

AICF_PACKAGE := small
AICF_TABLE :=

AICF_TABLE += add
add.cuda += kernels/add/add.cu
add.cpu += kernels/add/add.c

include $(AICF_INCLUDE)/aicf/rules.mk
