# The rules for the modules of one table. Included at the end of a generated ops.mk, which included
# build.mk and says: AICF_PACKAGE; AICF_TABLE, its ops; for each op and backend OP.BACKEND, the kernels'
# sources, each with `:ARCH` where it is for one; OP.define where several ops share their sources.
# `aicf` makes it all.

# A table that is about to be read again may have them: told when it comes to building.
aicf_unknown := $(filter-out $(AICF_TABLE),$(OPS))
AICF_OPS := $(if $(aicf_unknown),,$(or $(strip $(OPS)),$(AICF_TABLE)))
aicf_package := $(B)/python/$(AICF_PACKAGE)
# The package's files, from the list of what opgen wrote.
AICF_FILES := $(patsubst python/$(AICF_PACKAGE)/%,%,$(filter python/$(AICF_PACKAGE)/%,$(file \
    <$(GEN)/.opgen)))
AICF_MODULES := $(AICF_OPS:%=$(aicf_package)/%$(AICF_SUFFIX))

ifeq ($(.DEFAULT_GOAL),)
.DEFAULT_GOAL := aicf
endif
.PHONY: aicf kernels
ifneq ($(aicf_unknown),)
aicf kernels:
	@echo "error: OPS: the table has no op $(aicf_unknown)" >&2; exit 1
endif
aicf: $(AICF_MODULES) $(AICF_FILES:%=$(aicf_package)/%) $(B)/flags/outputs

# ---- descriptors and modules -------------------------------------------------------------------
$(eval $(call aicf_record,cc-op,AICF_COMPILE_OP,$$(aicf_ask_cc)))
$(AICF_OPS:%=$(B)/ops/%_op.o): $(B)/ops/%.o: $(GEN)/ops/%.c $(B)/flags/cc-op
	$(call aicf_say,CC,$<)
	$(Q)$(AICF_COMPILE_OP) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

$(eval $(call aicf_record,cc-module,AICF_COMPILE_MODULE,$$(aicf_ask_cc) && $$(aicf_ask_python_header)))
$(AICF_OPS:%=$(B)/modules/%.o): $(B)/modules/%.o: $(GEN)/modules/%.c $(B)/flags/cc-module
	$(call aicf_say,CC,$<)
	$(Q)$(AICF_COMPILE_MODULE) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

# ---- kernels -----------------------------------------------------------------------------------
# One command a backend and arch, in a record of its own: another list of archs recompiles the kernels
# that it touches. $(call aicf_command,BACKEND,ARCH)
aicf_command = $(if $(and $(WERROR),$(filter cuda,$1),$(filter %a,$2)),$(AICF_SH) wgmma) \
    $(AICF_COMPILE_KERNEL_$1) $(if $(filter cuda,$1),$(call aicf_gencode,$2) $(NVCCFLAGS))
aicf_source = $(firstword $(subst :, ,$1))
aicf_arch = $(or $(word 2,$(subst :, ,$1)),any)
# Empty for a kernel whose arch CUDA_ARCHS does not have.
aicf_built = $(if $(filter cuda,$1),$(call aicf_gencode,$2),yes)
# The codes in nvcc's options: sm_90, compute_90.
aicf_code_of = $(foreach g,$(filter -gencode=%,$1),$(lastword $(subst code=, ,$g)))
# Where a source is; empty for one that is not written yet, or that asks for the header of a library that
# is not there: then the module says `not built`.
aicf_written = $(firstword $(wildcard $1 $(KERNEL_ROOTS:%=%/$1)))
aicf_wants = $(foreach h,$(call aicf_headers,$1),$(call aicf_header,$h))
aicf_found = $(foreach p,$(call aicf_written,$1),$(if $(filter missing,$(call aicf_wants,$p)),,$p))

# $(call aicf_kernel,OP,BACKEND,SOURCE,ARCH,PATH)
define aicf_kernel
$(if $5,
aicf_objects.$1 += $(B)/kernels/$1/$3.o
aicf_kernels += $(B)/kernels/$1/$3.o
aicf_commands += $2:$4
aicf_codes.$1 += $(if $(filter cuda,$2),$(call aicf_code_of,$(call aicf_gencode,$4)))
$(B)/kernels/$1/$3.o: $5 $(B)/flags/kernel-$2-$4 $(if $(filter cuda,$2),$(AICF_CUDA_HOST)/crt/host_runtime.h)
$(B)/kernels/$1/$3.o: private aicf_how = $$(call aicf_command,$2,$4) $($1.define) $(call aicf_wants,$5)
$(B)/kernels/$1/$3.o: private aicf_for = $(if $($1.define),$1)
,
aicf_missing.$1 += $3
)
endef

aicf_note = printf '  %-8s %s\n' MISSING '$(if $(call aicf_written,$1),$(call aicf_headers,$(call \
    aicf_written,$1)) for )$1: its kernels of $2 are not built'

# $(call aicf_op,OP): its objects. Their list is a value too: backends and archs change without a clean.
define aicf_op
aicf_objects.$1 := $(B)/ops/$1_op.o $(B)/modules/$1.o
$(foreach b,$(BACKENDS),$(foreach s,$($1.$b),$(if $(call aicf_built,$b,$(call aicf_arch,$s)),
$(call aicf_kernel,$1,$b,$(call aicf_source,$s),$(call aicf_arch,$s),$(call aicf_found,$(call aicf_source,$s))))))
aicf_code.$1 := $$(strip $$(sort $$(filter sm_%,$$(aicf_codes.$1))) $$(sort $$(filter compute_%,$$(aicf_codes.$1))))
aicf_objects.$1 += $$(if $$(aicf_code.$1),$(B)/ops/$1_code.o)
$$(eval $$(call aicf_record,link.$1,aicf_objects.$1,$$(foreach m,$$(aicf_missing.$1),$$(call aicf_note,$$m,$1);)))
$(aicf_package)/$1$(AICF_SUFFIX): $$(aicf_objects.$1) $(B)/flags/link.$1
endef
$(foreach op,$(AICF_OPS),$(eval $(call aicf_op,$(op))))

define aicf_kernel_record
aicf_command.$1.$2 = $$(call aicf_command,$1,$2)
$$(eval $$(call aicf_record,kernel-$1-$2,aicf_command.$1.$2,$$$$(aicf_ask_$(if $(filter cuda,$1),nvcc,cc))))
endef
$(foreach c,$(sort $(aicf_commands)),$(eval $(call aicf_kernel_record,$(call aicf_source,$c),$(call aicf_arch,$c))))

kernels: $(aicf_kernels)
$(aicf_kernels):
	$(call aicf_say,$(if $(filter %.cu,$<),NVCC,CC),$<$(if $(aicf_for), for $(aicf_for)))
	$(Q)$(aicf_how) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

# What a module has device code for, as a text in it: the codes of its kernels' options. Compiled as the
# op's descriptor is.
$(foreach op,$(AICF_OPS),$(if $(aicf_code.$(op)),$(eval $(call aicf_record,code.$(op),aicf_code.$(op)))))
$(AICF_OPS:%=$(B)/ops/%_code.o): $(B)/ops/%_code.o: $(B)/flags/code.% $(B)/flags/cc-op
	@mkdir -p $(@D)
	$(Q)printf 'extern const char aicf_op_code[]; const char aicf_op_code[] = "%s";\n' '$(aicf_code.$*)' | \
	    $(AICF_COMPILE_OP) -x c -c - -o $(AICF_NEW) && mv -f $(AICF_NEW) $@

# ---- modules and the package -------------------------------------------------------------------
aicf_link = $(AICF_LINK_MODULE) $(AICF_LIBRARIES)
$(eval $(call aicf_record,link,aicf_link,$$(aicf_ask_cc)))
$(AICF_MODULES): $(B)/flags/link $(AICF_INCLUDE)/aicf/module.map | $(AICF_RT)/libaicf.so.1
	$(call aicf_say,LINK,$@)
	$(Q)$(AICF_LINK_MODULE) $(filter %.o,$^) $(AICF_LIBRARIES) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@

$(AICF_FILES:%=$(aicf_package)/%): $(aicf_package)/%: $(GEN)/python/$(AICF_PACKAGE)/%
	@mkdir -p $(@D) && cp $< $(AICF_NEW) && mv -f $(AICF_NEW) $@

# What the table no longer has leaves $(B) too.
aicf_outputs := package=$(AICF_PACKAGE) suffix=$(AICF_SUFFIX) $(AICF_TABLE:%=op=%) \
    $(AICF_FILES:%=file=%)
$(eval $(call aicf_record,outputs,aicf_outputs,$(AICF_SH) prune $(B) $(aicf_outputs)))

-include $(wildcard $(addsuffix .d,$(foreach op,$(AICF_OPS),$(aicf_objects.$(op)))))
