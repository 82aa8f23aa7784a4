# The runtime: libaicf.so.1, with the CUDA runtime inside where CUDA=1; and SHIM, the same library over
# a CUDA runtime that only records, for tests. Includes build.mk's variables; everything under $(B).
#
#   make runtime                     $(AICF_RT)/libaicf.so.1
#   make shim                        $(B)/shim/libaicf.so.1, the same SONAME (needs a CUDA toolkit)
RUNTIME := runtime/libaicf
RUNTIME_LIBRARY := $(AICF_RT)/libaicf.so.1
SHIM_LIBRARY := $(B)/shim/libaicf.so.1

runtime_objects := $(patsubst %.c,$(B)/%.o,$(wildcard $(RUNTIME)/*.c))
runtime_cuda := $(patsubst %.c,$(B)/%.o,$(filter-out %/absent.c,$(wildcard $(RUNTIME)/cuda/*.c)))
runtime_absent := $(B)/$(RUNTIME)/cuda/absent.o
runtime_shim := $(patsubst %.c,$(B)/%.o,$(wildcard runtime/shim/*.c))
runtime_cudart := $(B)/$(RUNTIME)/cuda/cudart
cudart_sh := sh $(RUNTIME)/cuda/cudart.sh
OBJCOPY ?= objcopy

# ---- objects -----------------------------------------------------------------------------------
# Its loops run over a few tensors or dims: vectors only add to the way in and out of them.
COMPILE_RUNTIME = $(AICF_COMPILE) -fvisibility=default -fno-semantic-interposition -Wconversion \
    $(if $(DEBUG),-O0 -g,-O2 -fno-tree-vectorize) -I$(AICF_INCLUDE) $(CFLAGS)
# What kernels share is compiled as they are.
runtime_kernels := $(foreach n,convert conv conv_i8 product,$(B)/$(RUNTIME)/$n.o)
COMPILE_RUNTIME_KERNELS = $(AICF_COMPILE) -fvisibility=default $(AICF_OPTIMIZE_KERNEL) -fno-math-errno \
    -I$(AICF_INCLUDE) $(CFLAGS)
# The toolkit's headers are no business of our warnings.
COMPILE_RUNTIME_CUDA = $(COMPILE_RUNTIME) -isystem "$$($(cudart_sh) include $(NVCC))"

$(eval $(call aicf_record,cc-runtime,COMPILE_RUNTIME,$(aicf_ask_cc)))
$(filter-out $(runtime_kernels),$(runtime_objects)) $(runtime_absent): $(B)/%.o: %.c $(B)/flags/cc-runtime
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_RUNTIME) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

$(eval $(call aicf_record,cc-runtime-kernels,COMPILE_RUNTIME_KERNELS,$(aicf_ask_cc)))
$(runtime_kernels): $(B)/%.o: %.c $(B)/flags/cc-runtime-kernels
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_RUNTIME_KERNELS) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)

ifneq ($(NVCC),)
$(eval $(call aicf_record,cc-runtime-cuda,COMPILE_RUNTIME_CUDA,$(aicf_ask_cc)))
$(runtime_cuda) $(runtime_shim): $(B)/%.o: %.c $(B)/flags/cc-runtime-cuda
	$(call aicf_say,CC,$<)
	$(Q)$(COMPILE_RUNTIME_CUDA) $(AICF_DEPEND) -c $< -o $(AICF_NEW) && $(AICF_PUBLISH)
endif
-include $(wildcard $(patsubst %,%.d,$(runtime_objects) $(runtime_absent) $(runtime_cuda) $(runtime_shim)))

# ---- one CUDA runtime --------------------------------------------------------------------------
MAKE_CUDART = $(cudart_sh) make $(runtime_cudart) $(RUNTIME)/cuda/calls.txt "$(CC)" "$(OBJCOPY)" $(NVCC)
$(eval $(call aicf_record,cudart,MAKE_CUDART))
$(runtime_cudart).a: $(RUNTIME)/cuda/calls.txt $(RUNTIME)/cuda/cudart.sh $(B)/flags/cudart
	$(call aicf_say,CUDART,$@)
	$(Q)$(MAKE_CUDART)

# Our own calls go to the copy, past the trampolines that are there for modules.
$(runtime_cuda:.o=.rt.o) $(runtime_shim:.o=.rt.o): %.rt.o: %.o $(runtime_cudart).a
	$(Q)$(OBJCOPY) --redefine-syms=$(runtime_cudart).names $< $@

# ---- libraries -----------------------------------------------------------------------------------
# Never unloaded: its threads and its fork handlers stay. Without gaps in its symbols (-z defs), and
# bound at load (-z now), so that no first call resolves anything.
LINK_RUNTIME = $(CC) -shared -Wl,-soname,libaicf.so.1 -Wl,--version-script=$(RUNTIME)/aicf.map \
    -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,-z,defs -Wl,--gc-sections -Wl,-O1 -Wl,--as-needed \
    -Wl,-Bsymbolic-functions $(CFLAGS) $(LDFLAGS)
runtime_libraries := -ldl -lrt -lpthread -lm

runtime_parts := $(runtime_objects) $(if $(filter 1,$(CUDA)),$(runtime_cuda:.o=.rt.o) \
    $(runtime_cudart).o $(runtime_cudart).a,$(runtime_absent))
link_runtime = $(LINK_RUNTIME) $(runtime_parts) $(runtime_libraries)
$(eval $(call aicf_record,link-runtime,link_runtime))
$(RUNTIME_LIBRARY): $(filter-out $(runtime_cudart).o,$(runtime_parts)) $(RUNTIME)/aicf.map $(B)/flags/link-runtime
	$(call aicf_say,LINK,$@)
	$(Q)$(link_runtime) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@

# SHIM stands where the copy does, behind the same trampolines. Calls of the list that it has no code
# for fail as such.
runtime_rest := $(B)/runtime/shim/rest
$(runtime_rest).o: runtime/shim/rest.sh $(runtime_cudart).a $(runtime_shim)
	$(Q)sh runtime/shim/rest.sh $(runtime_cudart).calls $(runtime_shim) >$(runtime_rest).c
	$(Q)$(COMPILE_RUNTIME) -Iruntime/shim -c $(runtime_rest).c -o $(AICF_NEW) && \
	    $(OBJCOPY) --redefine-syms=$(runtime_cudart).names $(AICF_NEW) && mv -f $(AICF_NEW) $@

shim_parts := $(runtime_objects) $(runtime_cuda:.o=.rt.o) $(runtime_shim:.o=.rt.o) \
    $(runtime_rest).o $(runtime_cudart).o
link_shim = $(LINK_RUNTIME) $(shim_parts) $(runtime_libraries)
$(eval $(call aicf_record,link-shim,link_shim))
$(SHIM_LIBRARY): $(filter-out $(runtime_cudart).o,$(shim_parts)) $(RUNTIME)/aicf.map $(B)/flags/link-shim
	$(call aicf_say,LINK,$@)
	$(Q)$(link_shim) -o $(AICF_NEW) && mv -f $(AICF_NEW) $@

.PHONY: runtime shim
runtime: $(RUNTIME_LIBRARY)
shim: $(SHIM_LIBRARY)
