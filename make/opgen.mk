# The generator: opgen, for what it is asked and what it writes.
include include/aicf/build.mk

ifneq ($(OPGEN),)
OPGEN_SOURCES := $(wildcard generator/*.c)
OPGEN_OBJECTS := $(OPGEN_SOURCES:%.c=$(B)/%.o)
COMPILE_OPGEN = $(CC) -std=c11 $(AICF_OPTIMIZE_KERNEL) $(AICF_WARNINGS) -D_POSIX_C_SOURCE=200809L -Iinclude $(YAML_CFLAGS) $(CFLAGS)
LINK_OPGEN = $(CC) $(CFLAGS) $(LDFLAGS) $(OPGEN_OBJECTS) $(YAML_LIBS) -lm
no_yaml := $(if $(wildcard $(GEN)/ops.mk),; or build from $(GEN)/ as it is: make OPGEN=)

ask_yaml = HINT=$(call aicf_quote,$(no_yaml)) \
    $(AICF_SH) header yaml.h libyaml-dev libyaml-devel $(CC) $(YAML_CFLAGS) $(CFLAGS)
$(eval $(call aicf_record,cc-opgen,COMPILE_OPGEN,$$(aicf_ask_cc) && $$(ask_yaml)))
$(OPGEN_OBJECTS): $(B)/%.o: %.c $(B)/flags/cc-opgen
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_OPGEN) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

$(eval $(call aicf_record,link-opgen,LINK_OPGEN))
$(B)/opgen: $(OPGEN_OBJECTS) $(B)/flags/link-opgen
	$(call aicf_say,LINK,$@)
	$(Q)$(LINK_OPGEN) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@
-include $(wildcard $(OPGEN_OBJECTS:=.d))
endif
