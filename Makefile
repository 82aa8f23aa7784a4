# AICF's build: the generator opgen, what it writes from ops.yaml, kernels, modules, runtime. `make help`
# lists what there is to make; include/aicf/build.mk has the variables.
MAKEFLAGS += -r
all: ## build everything: opgen, what it writes, the runtime, a module for each op

B ?= build$(if $(DEBUG),-debug)
GEN ?= generated
TABLE ?= ops.yaml
TEMPLATES ?= templates
PYTHON ?= $(or $(wildcard .venv/bin/python),python3)
# The generator. Empty: none is built or run, and what is in $(GEN) is built.
OPGEN ?= $(B)/opgen
YAML_CFLAGS ?=
YAML_LIBS ?= -lyaml
PREFIX ?= /usr/local

define one_word
ifneq ($(words $($1)),1)
$$(error $1="$($1)": a folder's name without spaces is needed; the checkout's own may have them)
endif
endef
$(foreach v,B GEN TABLE TEMPLATES PREFIX,$(eval $(call one_word,$v)))
ifneq ($(filter . .. / ./ ../ $(GEN),$(B)),)
$(error B=$(B): a folder for outputs alone is needed)
endif

# Goals that need neither a table nor a toolchain: nothing is generated, asked or built for them alone.
LIGHT := help clean bootstrap demo docs test py-ft test-ft test-gpu bench-gpu bench-launch sanitize check \
    check-table promises format run-format dist wheel profile new-op
# Goals that need opgen and nothing that it writes: a table with faults does not stop them.
OPGEN_ALONE := run-check-table run-new-op bench-opgen $(B)/opgen
heavy := $(filter-out $(LIGHT),$(or $(MAKECMDGOALS),all))
ifneq ($(heavy),)
include make/opgen.mk
endif
ifneq ($(filter-out $(OPGEN_ALONE),$(heavy)),)
include make/build.mk
endif
include make/work.mk
