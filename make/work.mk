# What people do with a build: test it, look at it, pack it.
.PHONY: all help clean bootstrap demo docs test test-gpu py-ft test-ft check check-table promises format dist wheel profile \
    release new-op bench-gil bench-opgen bench-gpu bench-cpu bench-launch bench-calls bench-compiler sanitize

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile make/work.mk | expand -t 20
	@sed -n 's/^#? \(.*\)/  \1/p' make/work.mk
#? variables: OPS="add relu" only these  CUDA=0|1 CPU=0|1 JAX=0|1  CUDA_ARCHS="80 90 90a compute_90"  DEBUG=1
#?            V=1 show commands  B=FOLDER GEN=FOLDER TABLE=FILE  CC CFLAGS NVCC NVCCFLAGS PYTHON  OPGEN=

clean: ## remove what was built, and generated/ unless it came in a tarball
	@sh make/clean.sh $(B) $(GEN)

bootstrap: ## install what is missing: compiler, headers, libyaml, .venv with the pinned packages
	@sh tools/bootstrap.sh

# Tests and tools start makes of their own, which must not take this one's flags and job slots.
ALONE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL
# What needs the packages of .venv runs in a make of its own: PYTHON is looked for when it starts.
demo: ## the main job in a minute: train, run, compare, then add an op; without CUDA unless CUDA=1
	@sh tools/bootstrap.sh demo
	@$(MAKE) --no-print-directory $(if $(filter undefined file default,$(origin CUDA)),CUDA=0) run-demo
run-demo: all
	@$(ALONE) PYTHONPATH=$(B)/python $(PYTHON) examples/demo.py

test: bootstrap ## every test; TESTS="tests/build -k stamp" only these, JOBS=8 at once
	@$(MAKE) --no-print-directory run-test
TESTS ?=
JOBS ?= 2
run-test: all
	@$(ALONE) B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) -m pytest -n $(JOBS) --dist loadfile $(TESTS)

# What needs a GPU says so before anything is built for it.
READY = $(PYTHON) tools/gpu_report.py ready
test-gpu: ## the tests that need a GPU; writes their report, which `make check` compares
	@$(READY)
	@sh tools/bootstrap.sh
	@$(MAKE) --no-print-directory run-test-gpu
run-test-gpu: all
	@$(ALONE) B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) tools/gpu_report.py run $(TESTS)

# Its own: outside of what `make test` runs, and minutes of building. A folder elsewhere serves checkouts.
PYFT ?= $(B)/py-ft
py-ft: ## a free-threaded Python 3.13, plain and under the thread sanitizer, in PYFT=build/py-ft
	@$(ALONE) sh tools/py_ft.sh $(PYFT)

test-ft: bootstrap py-ft ## threads without the GIL, under the thread sanitizer: free-threaded.json
	@$(MAKE) --no-print-directory run-test-ft
run-test-ft: all
	@$(ALONE) $(PYTHON) tests/freethreaded/prove.py --pythons $(PYFT) --build $(B) --generated $(GEN) \
	    --json docs/measurements/free-threaded.json $(FT)

bench-gpu: ## CUDA kernels beside torch, on a GPU: docs/measurements/gpu.json; CASES="softmax add" prints those alone
	@$(READY)
	@$(MAKE) --no-print-directory run-bench-gpu
run-bench-gpu: all
	@B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) -m bench.kernels $(if $(CASES),$(CASES),--json docs/measurements/gpu.json)

bench-cpu: all ## CPU kernels beside torch: docs/measurements/cpu.json; CASES="softmax add" prints those alone
	@B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) -m bench.kernels --device cpu \
	    $(if $(CASES),$(CASES),--json docs/measurements/cpu.json)

wheel: bootstrap ## what was built, as a wheel for pip: dist/aicf-VERSION-TAGS.whl
	@$(MAKE) --no-print-directory run-wheel
run-wheel: all
	@B=$(B) $(PYTHON) tools/wheel.py

docs: bootstrap ## the pages as a site, each op's with its measured speed: build/docs/site
	@$(MAKE) --no-print-directory run-docs
run-docs: all
	@B=$(B) GEN=$(GEN) $(PYTHON) tools/docs.py

bench-launch: ## what a launch costs the host, by the runtime and past it, on a GPU: launch.json
	@$(READY)
	@$(MAKE) --no-print-directory run-bench-launch
run-bench-launch: all
	@$(PYTHON) bench/launch.py $(B) $(GEN)/include docs/measurements/launch.json

bench-compiler: all ## what graphs cost to compile and to run, beside torch's, on a GPU: compiler.json, compile.json, plan.json, peers.json
	@PYTHONPATH=$(B)/python $(PYTHON) -m bench.compiler --json docs/measurements/compiler.json
	@PYTHONPATH=$(B)/python $(PYTHON) -m bench.compiler.graphs --json docs/measurements/compile.json
	@PYTHONPATH=$(B)/python $(PYTHON) -m bench.compiler.planning --json docs/measurements/plan.json
	@PYTHONPATH=$(B)/python $(PYTHON) -m bench.compiler.peers --json docs/measurements/peers.json

bench-calls: all ## what a call costs, beside who is called alike: docs/measurements/calls-*.json
	@$(PYTHON) -m bench.calls --build $(B) --generated $(GEN) --json docs/measurements

sanitize: ## every CUDA kernel under compute-sanitizer, and the faults that it must report
	@$(READY) compute-sanitizer
	@$(MAKE) --no-print-directory run-sanitize
run-sanitize: all
	@B=$(B) $(PYTHON) tests/gpu/sanitize.py --json docs/measurements/sanitize.json

# Its rules are the runtime's.
shim: ## the runtime over a CUDA that only records, which tests use; needs a toolkit and no GPU
ifneq ($(and $(filter shim,$(MAKECMDGOALS)),$(if $(NVCC),,none)),)
$(error shim needs a CUDA toolkit, and there is no nvcc: set NVCC or CUDA_HOME)
endif

check: bootstrap ## style, types, docs that tools write, promises, what a GPU has verified
	@$(MAKE) --no-print-directory run-check
run-check: all
	@$(ALONE) B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) tools/check.py

check-table: ## every fault of the table, each with its place
	@$(MAKE) --no-print-directory run-check-table
run-check-table: $(OPGEN)
	$(if $(OPGEN),,$(error OPGEN= leaves no generator to check the table with))
	@$(OPGEN) --check $(TABLE) && echo "  $(TABLE): no faults, $$($(OPGEN) --list $(TABLE) | wc -l) ops"

promises: ## each id, its tests, their last result; fails on an id with no test
	@$(MAKE) --no-print-directory run-promises
run-promises: all
	@$(ALONE) B=$(B) GEN=$(GEN) PYTHONPATH=$(B)/python $(PYTHON) tools/promises.py

format: bootstrap ## lay out C and Python as `make check` wants it
	@$(MAKE) --no-print-directory run-format
run-format:
	@$(PYTHON) tools/check.py --fix

release: ## build for every arch that the toolkit knows
	@$(MAKE) --no-print-directory CUDA_ARCHS="$$(sh include/aicf/build.sh release $(or $(NVCC),nvcc))" all

new-op: ## OP=name: a new row, its kernels and their first test, to start from
	@$(MAKE) --no-print-directory run-new-op
run-new-op: $(OPGEN)
	$(if $(OPGEN),,$(error OPGEN= leaves no generator to look at the new row))
	@$(PYTHON) tools/new_op.py --opgen $(OPGEN) --table $(TABLE) -- $(call aicf_quote,$(OP))

profile: ## OP=name: print the command that profiles its kernels on a GPU
	@sh make/profile.sh "$(OP)" $(B) $(PYTHON) $(TABLE)

bench-opgen: $(OPGEN) ## opgen on 1,000 and 10,000 rows, beside its marks
	@$(PYTHON) bench/opgen.py $(OPGEN) --json docs/measurements/opgen.json

bench-gil: all ## when a CPU launch lets go of the GIL: docs/measurements/gil.json
	@PYTHONPATH=$(B)/python $(PYTHON) bench/gil.py --json docs/measurements/gil.json

dist: ## a tarball that builds without libyaml: sources and generated/
	@$(MAKE) --no-print-directory run-dist
run-dist: $(GEN)/made
	@sh make/dist.sh $(GEN)
.PHONY: run-docs run-demo run-test run-test-ft run-test-gpu run-bench-gpu run-sanitize run-format run-check run-check-table run-promises run-new-op run-dist run-wheel
