# What opgen writes, the runtime, and the modules: with opgen.mk, all of it one graph.

# Under -n, -q and -t nothing is run only to learn what there is to do.
DRY := $(strip $(foreach f,n q t,$(findstring $f,$(filter-out --%,$(firstword -$(MAKEFLAGS))))))

# ---- generated/ ----------------------------------------------------------------------------------
ifneq ($(OPGEN),)
# opgen leaves what did not change as it was, so the stamp tells when it ran, and on what: the names of
# its inputs and a checksum over them. Another table, a template more or less, a file put back with its
# old time, a generated file that went: it runs again.
STAMP := $(GEN)/made
OPGEN_INPUTS := $(TABLE) $(sort $(wildcard $(TEMPLATES)/*.tpl $(TEMPLATES)/*/*.tpl))
opgen_seen := $(strip $(shell sh make/generate.sh seen $(GEN) $(OPGEN_INPUTS)))
$(STAMP): $(OPGEN) $(OPGEN_INPUTS) $(if $(call aicf_same,$(opgen_seen),$(strip $(file <$(STAMP)))),,FORCE)
	$(call aicf_say,OPGEN,$(TABLE))
	$(Q)sh make/generate.sh run $(GEN) $(call aicf_quote,$(filter-out gone:%,$(opgen_seen))) \
	    $(OPGEN) --templates $(TEMPLATES) --out $(GEN) $(TABLE)
# A recipe that does nothing makes make look whether what it includes changed, and then start over: the
# rules, or the list of files, which is all that files.mk has. It must not touch them: with a table from
# the future, make would start over for ever.
ifeq ($(DRY),)
$(GEN)/ops.mk $(GEN)/files.mk: $(STAMP)
	@:
endif
ifneq ($(and $(wildcard $(GEN)/ops.mk),$(wildcard $(GEN)/files.mk))$(DRY),)
all: $(STAMP)
endif
else ifeq ($(wildcard $(GEN)/ops.mk),)
$(error OPGEN= builds from an existing $(GEN)/, and there is no $(GEN)/ops.mk)
endif

# ---- runtime and modules -------------------------------------------------------------------------
# AICF_RT elsewhere is a runtime that is built already.
.PHONY: runtime
ifeq ($(AICF_RT),$(B)/python/aicf_rt)
include runtime/runtime.mk make/core.mk make/control.mk
endif
generated_missing := $(filter-out $(wildcard $(GEN)/ops.mk $(GEN)/files.mk),$(GEN)/ops.mk \
    $(if $(OPGEN),$(GEN)/files.mk))
ifeq ($(strip $(generated_missing)),)
include $(GEN)/ops.mk $(if $(OPGEN),$(GEN)/files.mk)
all: runtime aicf
else ifneq ($(DRY),)
-include $(GEN)/ops.mk
all: runtime
else
# Make writes them first and starts over; it gets to the goal only if that failed, and has said why.
-include $(GEN)/ops.mk $(GEN)/files.mk
all: ; @exit 1
endif
