# Each recipe is one call of the command line; `make` alone prints this help.
FAULTLAB := .venv/bin/faultlab
AT       ?= client
JOBS     ?= 2
REPEAT   ?= 1
ENGINE   ?= local
CLASS    ?= class.toml

.DEFAULT_GOAL := help
.PHONY: help setup ready next progress mystery page class score matrix origins docs judge-error reliability list doctor status clean vm vm-ssh vm-down verify test test-all lint unit security pictures lock release

help: ## print this help
	@echo 'faultlab: one documented failure in a real stack, proven by measurement'
	@echo
	@grep -hE '^[a-zA-Z%-]+:.*## ' Makefile | sed -E 's/^([^:]+):.*## /\1\t/; s/%/LAB/' | \
	  while IFS="$$(printf '\t')" read -r t d; do printf '  make %-16s %s\n' "$$t" "$$d"; done
	@echo
	@echo '  LAB: a number of `make list`, such as 2 or p02, or a name'
	@echo '  A failed recipe prints "Error 1" (the system said no), 2 (bad input)'
	@echo '  or 3 (unknown, cannot run here); make itself then ends with 2.'

setup: ready ## install and start what is missing (offline: BUNDLE=FILE)
	@$(FAULTLAB) images
ready:
	@setup/setup.sh

lab-%: ready ## start a lab, prove its fault, print its ticket
	@$(FAULTLAB) start $*
shell-%: ready ## log in to a machine of the lab (AT=web; default client)
	@$(FAULTLAB) shell $* $(AT)
use-%: ready ## show utilisation, saturation, errors (AT=web: only there)
	@$(FAULTLAB) use $* $(if $(filter command environment,$(origin AT)),$(AT))
top-%: ready ## show what its users meet, live
	@$(FAULTLAB) top $*
watch-%: ready ## show the numbers that matter, live (a strong hint)
	@$(FAULTLAB) watch $*
next: ready ## recommend the lab to take now
	@$(FAULTLAB) next
progress: ready ## show what you have solved so far
	@$(FAULTLAB) progress
mystery: ready ## start an unnamed lab (SEED=7 TIER=web LEVEL=3 HARD=1 FAULTS=2 DECOYS=1)
	@$(FAULTLAB) mystery $(if $(SEED),--seed $(SEED)) $(if $(TIER),--tier $(TIER)) $(if $(LEVEL),--level $(LEVEL)) $(if $(HARD),--hard) $(if $(FAULTS),--faults $(FAULTS)) $(if $(DECOYS),--decoys $(DECOYS))
hint-%: ready ## show the next hint
	@$(FAULTLAB) hint $*
check-%: ready ## measure if it is fixed (LATER=3: and still is)
	@$(FAULTLAB) check $* $(if $(LATER),--later $(LATER))
fix-%: ready ## apply the documented fix (FAULT=2: only the second)
	@$(FAULTLAB) fix $* $(FAULT)
flame-%: ready ## draw a flame graph of its CPU time
	@$(FAULTLAB) flame $*
debrief-%: ready ## show the lesson
	@$(FAULTLAB) debrief $*
reset-%: ready ## go back to the injected state
	@$(FAULTLAB) reset $*
down-%: ready ## remove the lab
	@$(FAULTLAB) down $*
verify-%: ready ## run the whole contract of a lab (REPEAT=3)
	@$(FAULTLAB) verify $* --repeat $(REPEAT)
verify: ready ## run a part of the contract of all labs (JOBS=4)
	@$(FAULTLAB) verify --all --quick --engine $(ENGINE) --jobs $(JOBS) --repeat $(REPEAT)

page class: export FAULTLAB_WEB = 1
page: ready ## work on labs in your browser (PORT=8420)
	@$(FAULTLAB) page $(if $(PORT),--port $(PORT))
class: ready ## open a workshop and serve its pages (CLASS=class.toml)
	@$(FAULTLAB) class start $(CLASS)

score: ready ## examine diagnostic tools (TOOLS="tshark mtr"; default all)
	@$(FAULTLAB) score $(or $(TOOLS),--all) --repeat $(REPEAT)
matrix: ready ## check that evidence shows in its own lab only
	@$(FAULTLAB) matrix --all
origins: ready ## compare measured figures with those of the sources
	@$(FAULTLAB) origins
docs: export FAULTLAB_TESTS = 1
docs: ready ## write the generated parts of the documents, and their site
	@$(FAULTLAB) docs
	@.venv/bin/python -m tests.safety
	@.venv/bin/python -m docs.site
judge-error: ready ## try repairs, count how often checks are wrong (hours)
	@$(FAULTLAB) judge-error --all --jobs $(JOBS) --json docs/judge.json
reliability: ready ## show how often labs pass (FILES=runs/campaign.json)
	@$(FAULTLAB) reliability $(FILES)

list: ready ## list all labs
	@$(FAULTLAB) list
doctor: ready ## try what this machine can run
	@$(FAULTLAB) doctor
status: ready ## list what faultlab has running
	@$(FAULTLAB) status
clean: ready ## remove everything that faultlab has created
	@$(FAULTLAB) sweep
vm: ready ## build and boot the lab VM
	@$(FAULTLAB) vm up
vm-ssh: ready ## log in to the lab VM
	@$(FAULTLAB) vm ssh
vm-down: ready ## remove the lab VM
	@$(FAULTLAB) vm down

lint unit: export FAULTLAB_TESTS = 1
lint: ready ## check style, types, words, licences, links
	@.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy
	@.venv/bin/python -m tests.words
	@.venv/bin/reuse lint --quiet || .venv/bin/reuse lint
	@shellcheck $$(git ls-files "*.sh") $$(git grep -lE '^#!.*\b(ba)?sh$$' -- .ci images tools ':!*.sh')
	@.venv/bin/python -m docs.site
unit: ready ## run the unit tests, without Docker
	@.venv/bin/pytest -q -n $$((2 * $$(nproc))) --dist worksteal tests/unit
test: export FAULTLAB_QUICK = 10
test: ready ## run all tests and labs; slow parts take turns
	@tests/run.sh
test-all: ready ## run all tests in full (hours without KVM)
	@tests/run.sh
lock: ## lock the newest dependencies that fit, with hashes
	@release/lock.sh --upgrade
release: ready ## write wheel, bundle, SBOM, notes (NO_BUNDLE=1: no bundle)
	@release/release.sh
security: export FAULTLAB_TESTS = 1
security: ready ## try the attacks again and write docs/security.md
	@.venv/bin/python -m tests.attacks
pictures: export FAULTLAB_TESTS = 1
pictures: ready build/pictures/bin/termtosvg ## make the pictures of docs/pictures from real runs
	@.venv/bin/python -m tests.pictures
build/pictures/bin/termtosvg:
	@python3 -m venv build/pictures && build/pictures/bin/pip install -q termtosvg-ng==1.4.1
