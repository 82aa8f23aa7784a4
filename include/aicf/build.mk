# How kernels, ops and modules are compiled and linked: the part of a build that is the same for every
# table. Included by each generated ops.mk, and by the Makefile of this tree for the runtime. All paths
# are variables; everything with `?=` is for people to set, on the command line or before.
AICF_BUILD := 1

.DELETE_ON_ERROR:
.SUFFIXES:
aicf_goal := $(.DEFAULT_GOAL)
.PHONY: FORCE
FORCE:
.DEFAULT_GOAL := $(aicf_goal)

# ---- places ------------------------------------------------------------------------------------
B ?= build
GEN ?= generated
AICF_INCLUDE ?= include
# Where the kernels' paths of the table start, beside the current folder.
KERNEL_ROOTS ?=
# The built package aicf_rt, and where it will lie as seen from a module.
AICF_RT ?= $(B)/python/aicf_rt
AICF_RT_FROM_MODULE ?= ../aicf_rt

# ---- tools -------------------------------------------------------------------------------------
ifneq ($(filter default undefined,$(origin CC)),)
CC := gcc
endif
PYTHON ?= python3
ifndef NVCC
NVCC := $(firstword $(shell command -v nvcc 2>/dev/null) \
    $(wildcard $(CUDA_HOME:%=%/bin/nvcc) /usr/local/cuda/bin/nvcc))
endif
# The host compiler of nvcc; CXX counts where it was set by hand, less a cache in front of it.
ifndef CCBIN
CCBIN := $(or $(NVCC_CCBIN),$(if $(filter default undefined,$(origin CXX)),,$(firstword \
    $(filter-out ccache %/ccache sccache %/sccache,$(CXX)))))
endif

# ---- what is built -----------------------------------------------------------------------------
# 0 or 1 each. CUDA is built where nvcc is found.
CPU ?= 1
CUDA ?= $(if $(NVCC),1,0)
BACKENDS := $(if $(filter 1,$(CPU)),cpu) $(if $(filter 1,$(CUDA)),cuda)
# 80, 90: machine code for that arch. 90a: likewise, for kernels that ask for it, and for all where 90
# is not in the list. compute_90: PTX, which later GPUs compile for themselves.
CUDA_ARCHS ?= 80 90 90a compute_90
# Of the table's ops those to build; empty: all.
OPS ?=

# ---- how -----------------------------------------------------------------------------------------
# CFLAGS, LDFLAGS and NVCCFLAGS stand after ours. DEBUG=1 is for debuggers and profilers.
CFLAGS ?=
LDFLAGS ?=
NVCCFLAGS ?=
DEBUG ?=
WERROR ?= -Werror
V ?=

ifneq ($(filter-out 0 1,$(CPU) $(CUDA)),)
$(error CPU and CUDA are 0 or 1, not "$(CPU)" and "$(CUDA)")
endif
ifeq ($(CUDA)$(NVCC),1)
$(error CUDA=1, but there is no nvcc: set NVCC or CUDA_HOME, or build without (CUDA=0))
endif

AICF_OPTIMIZE := $(if $(DEBUG),-O0 -g,-O2)
# Where a loop of few instructions lies across a boundary of 32 bytes, it may take twice as long.
AICF_OPTIMIZE_KERNEL := $(if $(DEBUG),-O0 -g,-O3 -falign-loops=32)
# nvcc's own -O is the host's alone, and stands behind any of -Xcompiler's: device code is optimised in
# full without. The host's part plans launches: -O2 makes a half more code of no more speed, but where
# something is divided by a constant, which is therefore done without a sign.
AICF_OPTIMIZE_CUDA := $(if $(DEBUG),-O0 -g -lineinfo,-Xcompiler=-Os)
# Nothing is thrown through modules. What debuggers would unwind them by is a twelfth of one; DEBUG=1
# has it.
AICF_NO_TABLES := $(if $(DEBUG),,-fno-asynchronous-unwind-tables)
AICF_WARNINGS := -Wall -Wextra -Wshadow=local -Wstrict-prototypes $(WERROR)

# Whole commands but for files, optimisation and includes.
AICF_COMPILE = $(CC) -std=c11 $(AICF_WARNINGS) -fPIC -fvisibility=hidden -ffunction-sections \
    -fdata-sections
# Without exceptions and guarded statics the host stubs need no libstdc++. With temporary files beside
# the object, nvcc gives the same bytes at every run.
AICF_COMPILE_CUDA = $(NVCC) -std=c++17 -cudart none --objdir-as-tempdir $(CCBIN:%=-ccbin=%) \
    $(if $(WERROR),-Werror=all-warnings) $(AICF_OPTIMIZE_CUDA) \
    -Xcompiler=-Wall,-fPIC,-fvisibility=hidden,-ffunction-sections,-fno-exceptions \
    -Xcompiler=-fno-threadsafe-statics $(AICF_NO_TABLES:%=-Xcompiler=%)
# Code shares pages with constants: in modules so small, pages of its own would be a tenth of them. So
# would be what says of each address in a table that it moves, which is packed where the loader reads that.
AICF_LINK = $(CC) -shared -Wl,-z,now -Wl,-z,relro -Wl,-z,noseparate-code -Wl,--gc-sections -Wl,-O1 \
    -Wl,--as-needed $(aicf_packed)
aicf_packed = $(eval aicf_packed := $(shell $(AICF_SH) packed $(CC)))$(aicf_packed)

# A module has hundreds of small functions. What counts in a kernel is where its loops lie.
AICF_CLOSE := -fno-align-functions

# Outputs appear whole or not at all: made under another name and renamed, the depfile before the
# object. -MP keeps a header that went from stopping the build; a source that moved must not either.
AICF_NEW = $(@D)/new-$(@F)
AICF_DEPEND = -MMD -MP -MT $@ -MF $(AICF_NEW).d
AICF_PUBLISH = echo '$<:' >>$(AICF_NEW).d && mv -f $(AICF_NEW).d $@.d && mv -f $(AICF_NEW) $@

Q := $(if $(V),,@)
# $(call aicf_say,WHAT,ON WHAT): a line of progress.
aicf_say = @mkdir -p $(@D)$(if $(V),,; printf '  %-8s %s\n' '$1' '$2')

# What needs a shell `if` is in there.
AICF_SH = sh $(call aicf_quote,$(AICF_INCLUDE)/aicf/build.sh)
aicf_quote = '$(subst ','\'',$1)'

# ---- archs -------------------------------------------------------------------------------------------
# $(call aicf_gencode,ARCH): the options for a kernel that asks for ARCH (sm_80, sm_90a, or any);
# nothing where CUDA_ARCHS has no entry for it: then it is not built. Worked out once an ARCH.
aicf_gencode = $(if $(filter undefined,$(origin aicf_gencode_$1)),$(eval aicf_gencode_$1 := $(call \
    aicf_checked,$(shell $(AICF_SH) gencode $1 $(CUDA_ARCHS) 2>&1))))$(aicf_gencode_$1)
aicf_checked = $(if $(filter error:,$1),$(error $(patsubst error:%,%,$(strip $1))),$1)

# ---- headers of libraries ------------------------------------------------------------------------------
# Those that a CUDA kernel's source may include although not every toolkit has them: of libraries that
# are opened when they are needed. $(call aicf_header,NAME): the option that finds it, nothing where
# none is needed, `missing` where there is none: then the source counts as not written.
AICF_HEADERS := cublasLt.h
aicf_header = $(if $(filter undefined,$(origin aicf_header_$1)),$(eval aicf_header_$1 := $(shell \
    $(AICF_SH) library $1 '$(NVCC)' $(PYTHON))))$(aicf_header_$1)
# $(call aicf_headers,PATH): what a source needs of them.
aicf_headers = $(if $(filter %.cu,$1),$(strip $(foreach h,$(AICF_HEADERS),$(if $(findstring <$h>,$(file <$1)),$h))))

# ---- values that outputs depend on ---------------------------------------------------------------------
# $(eval $(call aicf_record,NAME,VARIABLE,CHECK)): $(B)/flags/NAME holds the value of VARIABLE and is
# written only when that changed and the command CHECK succeeded; what is made with the value depends
# on it. So nothing is made with a toolchain that was not looked at. CHECK is read twice: its `$` are
# `$$`.
aicf_same = $(if $(subst x$1,,x$2)$(subst x$2,,x$1),,same)
define aicf_record
$(B)/flags/$1: $(if $(call aicf_same,$(strip $($2)),$(strip $(file <$(B)/flags/$1))),,FORCE)
	$(if $3,@$3)
	@mkdir -p $$(@D) && printf '%s\n' $$(call aicf_quote,$$(strip $$($2))) >$$@.new && mv -f $$@.new $$@
endef

# ---- Python ----------------------------------------------------------------------------------------------
# The suffix of modules, the options of their ABI, and Python's headers: asked once, when first needed.
aicf_python = $(eval aicf_python := $(call aicf_checked,$(shell $(AICF_SH) python $(PYTHON) 2>&1)))$(aicf_python)
AICF_SUFFIX = $(firstword $(aicf_python))
AICF_PYTHON_FLAGS = $(word 2,$(aicf_python)) \
    -isystem $(call aicf_quote,$(wordlist 3,99,$(aicf_python)))

# ---- what outputs are made with ----------------------------------------------------------------------------
AICF_INCLUDES = -I$(GEN)/include -I$(AICF_INCLUDE)
AICF_COMPILE_OP = $(AICF_COMPILE) $(AICF_OPTIMIZE) $(AICF_CLOSE) $(AICF_NO_TABLES) $(AICF_INCLUDES) \
    $(CFLAGS)
AICF_COMPILE_MODULE = $(AICF_COMPILE) $(AICF_OPTIMIZE) $(AICF_CLOSE) $(AICF_NO_TABLES) $(AICF_PYTHON_FLAGS) \
    $(AICF_INCLUDES) $(CFLAGS)
AICF_COMPILE_KERNEL_cpu = $(AICF_COMPILE) $(AICF_OPTIMIZE_KERNEL) $(AICF_CLOSE) $(AICF_NO_TABLES) \
    -fno-math-errno $(AICF_INCLUDES) $(CFLAGS)
# What nvcc says for each kernel is said shorter there. No depfile names that header.
AICF_CUDA_HOST = $(AICF_INCLUDE)/aicf/cuda/host
AICF_COMPILE_KERNEL_cuda = $(AICF_COMPILE_CUDA) -I$(AICF_CUDA_HOST) $(AICF_INCLUDES) $(NVCCFLAGS)
# What templates of the C++ library leave there is nobody else's; what a kernel exports stays.
AICF_LINK_MODULE = $(AICF_LINK) -Wl,--version-script=$(AICF_INCLUDE)/aicf/module.map $(CFLAGS) $(LDFLAGS)
AICF_LIBRARIES = -L$(AICF_RT) -l:libaicf.so.1 -lm -Wl,-rpath,'$$ORIGIN/$(AICF_RT_FROM_MODULE)'

aicf_ask_cc = $(AICF_SH) cc $(CC)
aicf_ask_python_header = $(AICF_SH) header Python.h python3-dev python3-devel $(CC) $(AICF_PYTHON_FLAGS)
aicf_ask_nvcc = $(AICF_SH) nvcc '$(CCBIN)' $(NVCC) && $(AICF_SH) archs $(NVCC) -- $(CUDA_ARCHS)
