# Builds the package of a table of tests in the current folder; each such table's Makefile includes it:
# make ROOT=the tree BUILT=its build/python FROM=aicf_rt as seen from a module OPGEN= PYTHON=
# Set before: what the table has of its own, BACKENDS_OF_TABLE and how they compile.
.DEFAULT_GOAL := all
B := .
GEN := gen
CPU := 1
CUDA := 0
AICF_INCLUDE := $(ROOT)/include
AICF_RT := $(BUILT)/aicf_rt
AICF_RT_FROM_MODULE := $(FROM)
include $(AICF_INCLUDE)/aicf/build.mk
BACKENDS += $(BACKENDS_OF_TABLE)
include $(GEN)/ops.mk
all: aicf
.PHONY: all
$(GEN)/ops.mk: ops.yaml
	$(OPGEN) --templates $(ROOT)/templates --out $(GEN) ops.yaml
