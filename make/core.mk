# The package aicf_rt: _core, which is C over libaicf, and the Python files beside it.
CORE_SOURCES := $(wildcard runtime/core/*.c)
CORE_OBJECTS := $(CORE_SOURCES:%.c=$(B)/%.o)
CORE := $(AICF_RT)/_core$(AICF_SUFFIX)
COMPILE_CORE = $(AICF_COMPILE) $(AICF_OPTIMIZE) $(AICF_PYTHON_FLAGS) -I$(AICF_INCLUDE) $(CFLAGS)
LINK_CORE = $(AICF_LINK) $(CFLAGS) $(LDFLAGS) $(CORE_OBJECTS) -L$(AICF_RT) -l:libaicf.so.1 -lm \
    -Wl,-rpath,'$$ORIGIN'

$(eval $(call aicf_record,cc-core,COMPILE_CORE,$$(aicf_ask_cc) && $$(aicf_ask_python_header)))
$(CORE_OBJECTS): $(B)/%.o: %.c $(B)/flags/cc-core
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_CORE) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

$(eval $(call aicf_record,link-core,LINK_CORE))
$(CORE): $(CORE_OBJECTS) $(B)/flags/link-core | $(AICF_RT)/libaicf.so.1
	$(call aicf_say,LINK,$@)
	$(Q)$(LINK_CORE) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@

CORE_FILES := $(patsubst runtime/python/aicf_rt/%,%,$(filter-out %/__pycache__,$(wildcard \
    runtime/python/aicf_rt/*)))
$(CORE_FILES:%=$(AICF_RT)/%): $(AICF_RT)/%: runtime/python/aicf_rt/%
	@mkdir -p $(@D) && cp $< $(AICF_NEW) && mv -f $(AICF_NEW) $@

include make/xla.mk

# A file that went, or a suffix, leaves the package.
core_outputs := _core$(AICF_SUFFIX) $(XLA_NAME) $(CORE_FILES)
$(eval $(call aicf_record,core-outputs,core_outputs,$(AICF_SH) prune_names $(AICF_RT) \
    $(B)/flags/core-outputs $(core_outputs)))
runtime: $(CORE) $(CORE_FILES:%=$(AICF_RT)/%) $(B)/flags/core-outputs
-include $(wildcard $(CORE_OBJECTS:=.d))
