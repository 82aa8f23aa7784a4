# The package aicf, the control layer: Python and the parts of a page, copied to where the built packages lie.
CONTROL := $(B)/python/aicf
CONTROL_FILES := $(patsubst aicf/%,%,$(wildcard $(foreach d,* */* */*/* */*/*/*,$(addprefix aicf/$d,.py .pyi .typed .html .css .js))))
$(CONTROL_FILES:%=$(CONTROL)/%): $(CONTROL)/%: aicf/%
	@mkdir -p $(@D) && cp $< $(AICF_NEW) && mv -f $(AICF_NEW) $@

# A file that went leaves the package.
$(eval $(call aicf_record,control-outputs,CONTROL_FILES,$(AICF_SH) prune_names $(CONTROL) \
    $(B)/flags/control-outputs $(CONTROL_FILES)))
.PHONY: control
control: $(CONTROL_FILES:%=$(CONTROL)/%) $(B)/flags/control-outputs
runtime: control
