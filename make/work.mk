# What people do with a build: test it, look at it, pack it.
.PHONY: all help clean bootstrap demo test check promises lint format dist profile release new-op

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile make/work.mk | expand -t 20
	@sed -n 's/^#? \(.*\)/  \1/p' make/work.mk
#? variables: OPS="add relu" only these  CUDA=0|1 CPU=0|1  CUDA_ARCHS="80 90 90a compute_90"  DEBUG=1
#?            V=1 show commands  B=FOLDER GEN=FOLDER TABLE=FILE  CC CFLAGS NVCC NVCCFLAGS PYTHON  OPGEN=

clean: ## remove what was built, and generated/ unless it came in a tarball
	@sh make/clean.sh $(B) $(GEN)

bootstrap: ## install what is missing: compiler, headers, libyaml, .venv with the pinned packages
	@sh tools/bootstrap.sh

# What needs the packages of .venv runs in a make of its own: PYTHON is looked for when it starts.
demo: bootstrap ## the main job in a minute: train, run, compare, then add an op
	@sh tools/bootstrap.sh demo
	@$(MAKE) --no-print-directory run-demo
run-demo: all
	@PYTHONPATH=$(B)/python $(PYTHON) examples/demo.py

test: bootstrap ## every test; TESTS="tests/build -k stamp" only these
	@$(MAKE) --no-print-directory run-test
TESTS ?=
run-test: all
	@PYTHONPATH=$(B)/python $(PYTHON) -m pytest $(TESTS)

check: bootstrap ## style, types, and that every promise has a test
	@$(MAKE) --no-print-directory run-check
run-check:
	@$(PYTHON) tools/check.py

promises: ## each id, its tests, their last result; fails on an id with no test
	@$(PYTHON) tools/promises.py

format: ## lay out C, CUDA and Python as `make check` wants it
	@$(PYTHON) tools/check.py --fix

release: ## build for every arch that the toolkit knows
	@$(MAKE) CUDA_ARCHS="$$(sh include/aicf/build.sh release $(or $(NVCC),nvcc))" all

new-op: ## OP=name: the files that a new row needs, and the row to start from
	@$(PYTHON) tools/new_op.py $(OP)

profile: ## OP=name: print the command that profiles its kernels on a GPU
	@sh make/profile.sh "$(OP)" $(B) $(PYTHON)

dist: ## a tarball that builds without libyaml: sources and generated/
	@$(MAKE) --no-print-directory run-dist
run-dist: $(GEN)/made
	@sh make/dist.sh $(GEN)
.PHONY: run-demo run-test run-check run-dist
