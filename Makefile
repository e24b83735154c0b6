# `make` without a target lists the targets. Everything that is made is in build/.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The Go of scripts/find-go comes first in the path, also for tests that run the go command.
WITH_GO = export PATH="$$(dirname "$$(scripts/find-go)"):$$PATH" CGO_ENABLED=0;
RELEASE := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.release=$(RELEASE)
# The node's program is sent with every boot. It uses HTTP/1.1 only: leaving HTTP/2 out saves 200 KB.
AGENT_FLAGS := -tags=nethttpomithttp2
# A server also needs the node's program for the other architecture.
OTHER_ARCH := $(if $(filter aarch64 arm64,$(shell uname -m)),amd64,arm64)
PREFIX ?= /usr/local
FUZZTIME ?= 20s
# In continuous integration a skipped test that test/skips.txt does not list is a failure.
SUMMARY = build/bin/testsum $(if $(CI),-skips test/skips.txt)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.PHONY: demo
demo: build ## three machines without disks boot on this computer; KEEP=1 leaves them running
	@scripts/install-packages demo
	@build/bin/pando-lab demo $(if $(KEEP),--keep)

.PHONY: demo-stop
demo-stop: ## ends what `make demo KEEP=1` left running
	@build/bin/pando-lab stop

# STORM has flags of `pando-lab storm`, such as "--data DIR --image NAME --nodes 1,10"; -h lists them.
.PHONY: bench-storm
bench-storm: build ## many nodes boot at once (root, idle machine); FULL=1: 200 nodes, and 40 of a desktop; STORM=FLAGS
	@scripts/install-packages rivals
	@gcc -O2 -Wall -o build/bin/nfsread tools/nfsread/nfsread.c -lnfs
	@build/bin/pando-lab storm $(if $(FULL),--full) $(STORM)
	@$(if $(FULL),build/bin/pando-lab storm --dir build/storm-desktop --recipe debian-desktop --until browser \
		--memory 3072 $(STORM))

.PHONY: bench-dhcp
bench-dhcp: build ## DHCP servers under load: Pando, dnsmasq, Kea, by perfdhcp (root, idle machine); DHCP=FLAGS
	@scripts/install-packages rivals
	@build/bin/pando-lab dhcp $(DHCP)

.PHONY: bench-alone
bench-alone: build ## one node boots by Pando, NBD, NFS and from a disk (root, idle machine); ALONE=FLAGS
	@scripts/install-packages rivals
	@build/bin/pando-lab alone $(ALONE)

.PHONY: bench-update
bench-update: build ## bytes of updates and of thirty daily versions, also by casync (root, an hour); UPDATE=FLAGS
	@scripts/install-packages rivals
	@build/bin/pando-lab update $(UPDATE)

.PHONY: bench-fleet
bench-fleet: ## frequent requests to a server of 10,000 nodes: import, list, change, adopt, events, metrics
	@$(WITH_GO) go test -run '^$$' -v -bench '^Benchmark(Fleet|Look)$$' ./internal/server

.PHONY: bench-build
bench-build: build ## time of a build, also by mksquashfs, tar, docker save (root, idle machine); BUILD=FLAGS
	@scripts/install-packages rivals
	@scripts/fetch-docker build/docker
	@build/bin/pando-lab build --docker build/docker $(BUILD)

.PHONY: bench-k
bench-k: build ## bytes of kernel and initramfs of Debian 12 and 13 (root); K="--data DIR,DIR": of present images
	@scripts/install-packages demo
	@build/bin/pando-lab k $(K)

.PHONY: bench-dashboard
bench-dashboard: ## dashboard with 10,000 nodes in a headless Chromium: bytes, loading time, frame time
	@scripts/install-packages test
	@$(WITH_GO) go test -run '^$$' -bench BenchmarkDashboard -benchtime 1x ./internal/server

.PHONY: bench-watching
bench-watching: ## cost of watching boots: processor time and bytes of server and nodes, also with fifty browsers
	@scripts/install-packages test
	@$(WITH_GO) go test -run '^$$' -bench '^Benchmark(CostOfWatching|Watchers)$$' -benchtime 1x ./internal/server

.PHONY: build
build: ## pando, pando-lab, and pando-init for amd64 and arm64 into build/bin
	@scripts/install-packages build
	@$(WITH_GO) go build -trimpath -ldflags '$(LDFLAGS)' -o build/bin/ ./cmd/...
	@$(WITH_GO) go build -trimpath $(AGENT_FLAGS) -ldflags '$(LDFLAGS)' -o build/bin/ ./cmd/pando-init
	@$(WITH_GO) GOARCH=$(OTHER_ARCH) go build -trimpath $(AGENT_FLAGS) -ldflags '$(LDFLAGS)' \
		-o build/bin/pando-init-$(OTHER_ARCH) ./cmd/pando-init

.PHONY: agent-flags
agent-flags: # how pando-init is built, for a test of its size
	@echo '$(AGENT_FLAGS)'

.PHONY: install
install: build ## pando into PREFIX/bin (/usr/local), the node's program and iPXE into PREFIX/lib/pando
	@scripts/install-packages loader
	install -D -m 755 build/bin/pando $(DESTDIR)$(PREFIX)/bin/pando
	install -D -m 755 build/bin/pando-init $(DESTDIR)$(PREFIX)/lib/pando/pando-init
	install -D -m 755 build/bin/pando-init-$(OTHER_ARCH) $(DESTDIR)$(PREFIX)/lib/pando/pando-init-$(OTHER_ARCH)
	for f in build/ipxe/*.efi; do \
		[ ! -e $$f ] || install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/pando/ipxe $$f; \
	done

.PHONY: uninstall
uninstall: ## removes what install put into PREFIX; the data directory stays
	rm -f $(DESTDIR)$(PREFIX)/bin/pando $(DESTDIR)$(PREFIX)/lib/pando/pando-init \
		$(DESTDIR)$(PREFIX)/lib/pando/pando-init-$(OTHER_ARCH) $(DESTDIR)$(PREFIX)/lib/pando/ipxe/*.efi
	-rmdir $(DESTDIR)$(PREFIX)/lib/pando/ipxe $(DESTDIR)$(PREFIX)/lib/pando

.PHONY: test
test: packages lint test-unit test-boot ## everything that is checked on each change, real boots included

.PHONY: packages
packages:
	@scripts/install-packages test

build/bin/testsum: tools/testsum/main.go tools/go.mod
	@$(WITH_GO) go -C tools build -o ../build/bin/ ./testsum

.PHONY: test-unit
test-unit: build build/bin/testsum ## all tests except real boots
	@$(WITH_GO) go -C tools test ./...
	@$(WITH_GO) go test -json -skip ^TestReal ./... 2>&1 | $(SUMMARY)

.PHONY: test-boot
test-boot: build build/bin/testsum ## real boots of emulated machines (root)
	@$(WITH_GO) PANDO_BOOT=1 go test -json -count=1 -p 1 -timeout 40m -run ^TestReal \
		./internal/testkit ./test/boot 2>&1 | $(SUMMARY)

.PHONY: test-full
test-full: build build/bin/testsum ## make test and the long tests, before a release; STEP=fuzzing: only that step
	@scripts/install-packages full
	@$(WITH_GO) scripts/test-full $(if $(STEP),"$(STEP)")

.PHONY: lint
lint: build/bin/staticcheck build/bin/revive ## gofmt, go vet, staticcheck, revive
	@$(WITH_GO) scripts/lint

build/bin/staticcheck build/bin/revive: tools/go.mod
	@scripts/install-packages build
	@mkdir -p build/bin
	@$(WITH_GO) go -C tools build -o ../build/bin/ honnef.co/go/tools/cmd/staticcheck github.com/mgechev/revive
	@touch build/bin/staticcheck build/bin/revive

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@$(WITH_GO) scripts/fuzz $(FUZZTIME)

.PHONY: golden
golden: ## rewrites golden files; look at the difference before you commit it
	@$(WITH_GO) go test $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -n1 dirname | sort -u) -update

.PHONY: clean
clean: ## removes build/
	@if [ -x build/bin/pando-lab ]; then build/bin/pando-lab stop; fi
	rm -rf build
