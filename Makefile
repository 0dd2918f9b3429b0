# Every recipe is one call of the command line; `make` alone prints this help.
FAULTLAB := .venv/bin/faultlab
LABS     := $(notdir $(patsubst %/lab.toml,%,$(wildcard labs/[!_]*/lab.toml)))
AT       ?= client
JOBS     ?= 1
REPEAT   ?= 1
ENGINE   ?= local
CLASS    ?= class.toml

.DEFAULT_GOAL := help
.PHONY: help setup ready next progress mystery page class score matrix origins docs reliability list doctor status clean vm vm-ssh vm-down verify test test-all lint unit security

help: ## this help
	@echo 'faultlab: one documented failure in a real stack, proven by measurement'
	@echo
	@grep -hE '^[a-zA-Z%-]+:.*## ' Makefile | sed -E 's/^([^:]+):.*## /\1\t/' | \
	  while IFS="$$(printf '\t')" read -r t d; do printf '  make %-16s %s\n' "$$t" "$$d"; done
	@echo
	@echo '  labs: $(LABS)' | fold -s -w 78
	@echo '  A failed recipe prints "Error 1" (the system said no), 2 (bad input)'
	@echo '  or 3 (unknown, cannot run here); make itself then ends with 2.'

setup: ready ## install, start, build what is missing; BUNDLE=FILE: offline
	@$(FAULTLAB) images
ready:
	@setup/setup.sh

lab-%: ready ## start a lab: fault proven, ticket printed
	@$(FAULTLAB) start $*
shell-%: ready ## log in to a machine of it (AT=web; default client)
	@$(FAULTLAB) shell $* $(AT)
use-%: ready ## utilisation, saturation, errors, read now (AT=web: only it)
	@$(FAULTLAB) use $* $(if $(filter command environment,$(origin AT)),$(AT))
watch-%: ready ## the numbers that matter for it, live (a strong hint)
	@$(FAULTLAB) watch $*
next: ready ## which lab to take now
	@$(FAULTLAB) next
progress: ready ## what you have solved so far
	@$(FAULTLAB) progress
mystery: ready ## a lab that does not say which it is (SEED=7 TIER=web LEVEL=3)
	@$(FAULTLAB) mystery $(if $(SEED),--seed $(SEED)) $(if $(TIER),--tier $(TIER)) $(if $(LEVEL),--level $(LEVEL))
hint-%: ready ## the next hint
	@$(FAULTLAB) hint $*
check-%: ready ## is it fixed? measures it now
	@$(FAULTLAB) check $*
fix-%: ready ## apply the documented fix (STAGE=2: only that one)
	@$(FAULTLAB) fix $* $(STAGE)
flame-%: ready ## where its processor time goes: a flame graph
	@$(FAULTLAB) flame $*
debrief-%: ready ## the lesson
	@$(FAULTLAB) debrief $*
reset-%: ready ## back to the injected state
	@$(FAULTLAB) reset $*
down-%: ready ## remove it
	@$(FAULTLAB) down $*
verify-%: ready ## the whole contract of one lab (REPEAT=3)
	@$(FAULTLAB) verify $* --repeat $(REPEAT)
verify: ready ## each lab that runs here: fix, a cheat, what is next (JOBS=2)
	@$(FAULTLAB) verify --all --quick --engine $(ENGINE) --jobs $(JOBS) --repeat $(REPEAT)

page class: export FAULTLAB_WEB = 1
page: ready ## work on labs in your browser (PORT=8420)
	@$(FAULTLAB) page $(if $(PORT),--port $(PORT))
class: ready ## open a workshop and serve its pages (CLASS=class.toml)
	@$(FAULTLAB) class start $(CLASS)

score: ready ## examine diagnostic tools (TOOLS="tshark mtr"; all without)
	@$(FAULTLAB) score $(or $(TOOLS),--all) --repeat $(REPEAT)
matrix: ready ## look for the evidence of every lab in every other one
	@$(FAULTLAB) matrix --all
origins: ready ## measured figures beside those of the documents
	@$(FAULTLAB) origins
docs: ready ## write the generated parts of the documents
	@$(FAULTLAB) docs
reliability: ready ## how often each lab passes (FILES=runs/campaign.json)
	@$(FAULTLAB) reliability $(FILES)

list: ready ## the catalogue
	@$(FAULTLAB) list
doctor: ready ## what runs on this machine, by trying
	@$(FAULTLAB) doctor
status: ready ## what of ours is up
	@$(FAULTLAB) status
clean: ready ## remove everything of ours
	@$(FAULTLAB) sweep
vm: ready ## build and boot the lab VM
	@$(FAULTLAB) vm up
vm-ssh: ready ## log in to the lab VM
	@$(FAULTLAB) vm ssh
vm-down: ready ## remove the lab VM
	@$(FAULTLAB) vm down

lint unit: export FAULTLAB_TESTS = 1
lint: ready ## ruff, mypy, shellcheck
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy
	@shellcheck $$(git ls-files "*.sh") $$(git grep -lE '^#!.*\b(ba)?sh$$' -- .ci images tools ':!*.sh')
unit: ready ## unit tests, without Docker
	@.venv/bin/pytest -q -n auto tests/unit
test: export FAULTLAB_QUICK = 1
test: export FAULTLAB_TESTS = 1
test: ready ## all tests, each lab walked; what is slow takes turns
	@tests/run.sh
test-all: export FAULTLAB_TESTS = 1
test-all: ready ## the same with nothing left out (hours without KVM)
	@tests/run.sh
security: export FAULTLAB_TESTS = 1
security: ready ## the attacks, tried again; writes docs/security.md
	@.venv/bin/python -m tests.attacks
