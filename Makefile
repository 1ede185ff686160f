# `make help` lists the targets. Each installs what it lacks on Debian and Ubuntu; only Swift 6.3 must be there.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run test test-unit test-readme test-deb test-image bench bench-check soak fuzz docs lint format release deb image install uninstall clean toolchain

PRODUCT := musickit-token-server
# How long `make fuzz` runs each fuzz target.
FUZZ_SECONDS ?= 600
# How long the load of `make soak` lasts at least; a busy machine takes longer for the nine cycles of a verdict.
SOAK_SECONDS ?= 300

SOURCES := Package.swift Sources Tests Fuzz $(wildcard Benchmarks)
SCRIPTS := .ci/run .ci/need .ci/scratch .ci/bare Tests/foreign-text Tests/words Tests/readme Tests/instructions Tests/busy \
  Tests/debian-package Tests/systemctl-stand-in Fuzz/run deploy/manual deploy/sbom deploy/image \
  $(addprefix deploy/debian/,build postinst prerm postrm)
VENV := .venv
# What the release's --version prints beside the version: the commit, its date, and whether the sources differ from it.
COMMIT = $(shell git log -1 --abbrev=12 --format='%h, %cs' 2>/dev/null)$(if \
  $(shell git status --porcelain -- Package.swift Sources 2>/dev/null),$(COMMA) with changes)
COMMA := ,
# Without a search path for libraries beside the program, and with all symbols bound before main, so that the kernel keeps
# their table read-only.
HARDENED := --disable-local-rpath -Xlinker -z -Xlinker now
# Has the archive of libstdc++ alone. The first folder that has a library decides, so the program has this one in itself:
# it starts with a tenth fewer instructions, and takes 1 MB less memory. Without the archive, it loads the system's.
ARCHIVES := .build/archives
# The toolchain exports every public symbol, for libraries that look them up at run time. Nothing here loads such a library.
UNEXPORTED := -Xlinker --no-export-dynamic
# A release is stripped, so it is compiled without debugging information, too.
RELEASE = SOURCE_REVISION='$(or $(SOURCE_REVISION),$(COMMIT),commit unknown)' \
  swift build -c release -debug-info-format none --static-swift-stdlib $(HARDENED) $(UNEXPORTED) \
    -Xlinker -L$(ARCHIVES) -Xlinker -s --product $(PRODUCT) --scratch-path $(RELEASE_BUILD)
# A build has its folder for itself, so builds that run side by side, as in CI, need one each.
RELEASE_BUILD ?= .build

# Where `make install` puts things: below PREFIX, in DESTDIR if that is set, as for a package.
PREFIX ?= /usr/local
BINARY ?= .build/release/$(PRODUCT)
INSTALLED_BINARY := $(DESTDIR)$(PREFIX)/bin/$(PRODUCT)
INSTALLED_UNIT := $(DESTDIR)$(PREFIX)/lib/systemd/system/$(PRODUCT).service
INSTALLED_SOCKET := $(DESTDIR)$(PREFIX)/lib/systemd/system/$(PRODUCT).socket
INSTALLED_MANUAL := $(DESTDIR)$(PREFIX)/share/man/man1/$(PRODUCT).1
INSTALLED_BASH := $(DESTDIR)$(PREFIX)/share/bash-completion/completions/$(PRODUCT)
INSTALLED_ZSH := $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$(PRODUCT)
INSTALLED_FISH := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$(PRODUCT).fish
INSTALLED := $(INSTALLED_BINARY) $(INSTALLED_UNIT) $(INSTALLED_SOCKET) $(INSTALLED_MANUAL) $(INSTALLED_BASH) \
  $(INSTALLED_ZSH) $(INSTALLED_FISH)

# Warnings as errors are other compiler flags, hence another build. Where the environment asks for them everywhere, as
# in CI, one build serves all; elsewhere lint has its own, so that it does not undo the one that run and test share.
LINT_BUILD := $(if $(filter 1,$(WARNINGS_AS_ERRORS)),.build,.build-lint)

# Further flags for debug builds; CI has some (.ci/run). A build with other flags than the last one compiles everything.
BUILD_FLAGS ?=

# A log that no person watches needs no progress.
QUIET := $(if $(CI),--quiet)

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Debug, because a first build takes half as long as release's and the tests then need not build it again.
run: toolchain ## Build and run the demo: a page on http://localhost:8080 (PORT=9000 for another port)
	@swift build $(BUILD_FLAGS) --product $(PRODUCT)
	@exec "$$(swift build --show-bin-path)/$(PRODUCT)" demo $(if $(PORT),--port $(PORT)) $(ARGUMENTS)

test-unit: toolchain $(VENV)/installed ## Run the modules' own tests that start no other program: under a minute after the build
	.ci/scratch swift build $(QUIET) $(BUILD_FLAGS) --build-tests
	.ci/scratch Tests/run unit

test: toolchain $(VENV)/installed ## Run every test, count what parsers cost, run each fuzz target on its corpus
	@.ci/need openssl curl logrotate haproxy nginx caddy chromium-headless-shell golang-go nodejs npm php-cli nghttp2-client openssh-client redis-server valgrind mandoc zsh fish prometheus iproute2
	.ci/scratch swift build $(QUIET) $(BUILD_FLAGS) --build-tests
	.ci/scratch Tests/run
	.ci/scratch Fuzz/run 0

test-readme: ## Follow the first minute of README.md in a bare Debian 12 and 13 (RELEASES, else this Ubuntu); needs root
	@.ci/need mmdebstrap
	.ci/scratch Tests/readme $(RELEASES)

test-deb: ## Install, start, upgrade and purge the package of a release (BINARY) in a bare Debian; needs root
	@.ci/need curl mmdebstrap dpkg-dev lintian openssl
	.ci/scratch Tests/debian-package "$(BINARY)"

test-image: ## Build the image of a release (BINARY), and run it read-only as its user; needs root
	@.ci/need openssl python3
	.ci/scratch Tests/image "$(BINARY)"

bench: toolchain ## Measure against nginx, HAProxy, h2o and OpenSSL, side by side
	@.ci/need nginx haproxy h2o wrk nghttp2-client openssl
	Benchmarks/run

# Not in .ci/scratch: the logs of a failed run stay. A program from elsewhere (BINARY) needs no build.
soak: $(VENV)/installed $(if $(filter file,$(origin BINARY)),release) ## Load a release (BINARY) for SOAK_SECONDS (300) while all around it changes; nothing may leak or fail
	@.ci/need redis-server
	$(VENV)/bin/python Tests/soak/run "$(BINARY)" $(SOAK_SECONDS)

bench-check: toolchain ## Count the instructions of eight requests, against Benchmarks/instructions.json
	@.ci/need nginx openssl valgrind wrk
	Benchmarks/run check

fuzz: toolchain ## Fuzz for long: FUZZ_SECONDS (600) for each target
	.ci/scratch Fuzz/run $(FUZZ_SECONDS)

docs: toolchain ## Write the tables of the documents and config/example.json5 from the code
	swift run $(QUIET) ReferenceTables

lint: toolchain $(VENV)/installed ## Check format, layers, words, documents, scripts, workflows, manifests, alerts, tables, SBOM, compose; build with warnings as errors
	@.ci/need shellcheck python3 prometheus openssl curl
	swift format lint --strict --parallel --recursive $(SOURCES)
	Tests/architecture
	Tests/foreign-text
	Tests/words
	Tests/documents
	$(VENV)/bin/python Tests/kubernetes/check
	$(VENV)/bin/python Tests/prometheus/check
	shellcheck $(SCRIPTS)
	$(VENV)/bin/actionlint .github/workflows/*.yaml
	WARNINGS_AS_ERRORS=1 swift build $(QUIET) $(BUILD_FLAGS) --build-tests --scratch-path $(LINT_BUILD)
	WARNINGS_AS_ERRORS=1 swift run $(QUIET) --skip-build --scratch-path $(LINT_BUILD) ReferenceTables --check
	$(VENV)/bin/python Tests/sbom $(LINT_BUILD)/debug/$(PRODUCT)
	$(VENV)/bin/python Tests/compose $(LINT_BUILD)/debug/$(PRODUCT)

format: toolchain ## Format the sources in place
	swift format --in-place --parallel --recursive $(SOURCES)

release: toolchain $(ARCHIVES)/libstdc++.a ## Build the one file to deploy, with Swift's runtime and libstdc++ in it; beside it checksums and an SBOM
	@$(RELEASE)
	@cd "$$($(RELEASE) --show-bin-path)" && "$(CURDIR)/deploy/sbom" $(PRODUCT) >$(PRODUCT).spdx.json && \
	  sha256sum $(PRODUCT) $(PRODUCT).spdx.json >SHA256SUMS
	@ls -l "$$($(RELEASE) --show-bin-path)/$(PRODUCT)" | awk '{ printf "%.1f MB  %s\n", $$5 / 1e6, $$NF }'

$(ARCHIVES)/libstdc++.a:
	@mkdir -p $(@D)
	@archive=$$(clang -print-file-name=$(@F)) && [ -e "$$archive" ] && ln -sf "$$archive" $@ || true

# A program from elsewhere (BINARY) needs no build.
deb: $(if $(filter file,$(origin BINARY)),release) ## Build a Debian package of the release, in .build/debian
	@.ci/need dpkg-dev
	@deploy/debian/build "$(BINARY)" .build/debian
	@cd .build/debian && sha256sum *.deb >SHA256SUMS

image: ## Build the container image with docker, podman or buildah (BINARY, BUILD_IMAGE, BUILDER, SOURCE_URL)
	@SOURCE_REVISION='$(COMMIT)' BUILD_IMAGE='$(BUILD_IMAGE)' BUILDER='$(BUILDER)' SOURCE_URL='$(SOURCE_URL)' \
	  deploy/image $(if $(filter file,$(origin BINARY)),,"$(BINARY)")

# No build here: under sudo there may be no Swift, and nothing in .build may belong to root.
install: ## Install what release built, its manual page, completions and systemd units (PREFIX=/usr/local, DESTDIR)
	@test -x "$(BINARY)" || { echo 'Please build the program first: make release' >&2; exit 1; }
	install -d $(foreach file,$(INSTALLED),"$(dir $(file))")
	install -m 755 "$(BINARY)" "$(INSTALLED_BINARY)"
	sed 's#/usr/local/bin/#$(PREFIX)/bin/#' deploy/$(PRODUCT).service >"$(INSTALLED_UNIT)"
	cp deploy/$(PRODUCT).socket "$(INSTALLED_SOCKET)"
	deploy/manual "$(INSTALLED_BINARY)" >"$(INSTALLED_MANUAL)"
	"$(INSTALLED_BINARY)" --generate-completion-script bash >"$(INSTALLED_BASH)"
	"$(INSTALLED_BINARY)" --generate-completion-script zsh >"$(INSTALLED_ZSH)"
	"$(INSTALLED_BINARY)" --generate-completion-script fish >"$(INSTALLED_FISH)"
	chmod 644 $(foreach file,$(filter-out $(INSTALLED_BINARY),$(INSTALLED)),"$(file)")
	@$(if $(DESTDIR),,printf '%s\n' 'Installed. Next, without a key: $(PRODUCT) demo' \
	  'With one: copy config/minimal.json5 as config.json5 beside the .p8 file, write your values into it, and run' \
	  '$(PRODUCT) doctor --config config.json5')

uninstall: ## Remove the files of install (same PREFIX and DESTDIR)
	rm -f $(foreach file,$(INSTALLED),"$(file)")

clean: ## Remove everything built
	rm -rf .build .build-* $(VENV) Fuzz/.build Benchmarks/.build

toolchain:
	@command -v swift >/dev/null || { echo 'Please install Swift 6.3: https://www.swift.org/install/linux/' >&2; exit 1; }
	@.ci/need git pkg-config libssl-dev libnghttp2-dev zlib1g-dev

# The Python side of the tests, renewed when its list changes.
$(VENV)/installed: Tests/requirements.txt
	@.ci/need python3 python3-venv
	python3 -m venv --clear $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
