# aicf_rt._xla: what aicf_cuda.jax calls the ops by, in C over XLA's FFI. Built where XLA's header is
# found: jaxlib brings it, and nothing of jax is linked or run.
#
#   JAX=0          not built                 JAX=1          an error where it cannot be
#   XLA_INCLUDE=   the folder with xla/ffi/api/c_api.h; empty: the one in $(PYTHON)'s jaxlib
JAX ?=
XLA_INCLUDE ?=
ifneq ($(filter-out 0 1,$(JAX)),)
$(error JAX is 0, 1 or left out, not "$(JAX)")
endif
xla_include := $(if $(filter 0,$(JAX)),,$(shell sh make/xla.sh $(call aicf_quote,$(PYTHON)) \
    $(call aicf_quote,$(XLA_INCLUDE))))
xla_remedy := install jaxlib 0.6 or later there, or set XLA_INCLUDE to the folder with xla/ffi/api/c_api.h
ifeq ($(JAX)$(xla_include),1)
$(error JAX=1, but $(or $(XLA_INCLUDE),$(PYTHON) has no jaxlib that) has the header of XLA's FFI: $(xla_remedy))
endif

XLA_SOURCES := $(wildcard runtime/jax/*.c)
XLA_OBJECTS := $(XLA_SOURCES:%.c=$(B)/%.o)
XLA_NAME := $(if $(xla_include),_xla$(AICF_SUFFIX))
COMPILE_XLA = $(COMPILE_CORE) -isystem $(call aicf_quote,$(xla_include))
LINK_XLA = $(AICF_LINK) $(CFLAGS) $(LDFLAGS) $(XLA_OBJECTS) -L$(AICF_RT) -l:libaicf.so.1 \
    -Wl,-rpath,'$$ORIGIN'

# Said when it is so for the first time.
xla_found := $(or $(xla_include),none JAX=$(JAX))
xla_say := $(if $(or $(xla_include),$(JAX)),:,printf '  %-8s %s\n' SKIP \
    'aicf_rt._xla, for aicf_cuda.jax: $(PYTHON) has no jaxlib: $(xla_remedy)')
$(eval $(call aicf_record,xla,xla_found,$$(xla_say)))

ifneq ($(XLA_NAME),)
$(eval $(call aicf_record,cc-xla,COMPILE_XLA,$$(aicf_ask_cc) && $$(aicf_ask_python_header)))
$(XLA_OBJECTS): $(B)/%.o: %.c $(B)/flags/cc-xla
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_XLA) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

$(eval $(call aicf_record,link-xla,LINK_XLA))
$(AICF_RT)/$(XLA_NAME): $(XLA_OBJECTS) $(B)/flags/link-xla | $(AICF_RT)/libaicf.so.1
	$(call aicf_say,LINK,$@)
	$(Q)$(LINK_XLA) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@
-include $(wildcard $(XLA_OBJECTS:=.d))
endif
runtime: $(XLA_NAME:%=$(AICF_RT)/%) $(B)/flags/xla
