.DEFAULT_GOAL := help
.PHONY: help demo test interop model mutants simulate chaos test-compose lint docs features bench bench-core bench-instructions bench-life ci

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 20

demo: ## Show the library at work on five local masters
	@scripts/need redis-server cc
	cargo run --release --example demo

test: ## Run the tests on local masters
	@scripts/need redis-server cc
	cargo test

interop: ## Run the tests against other libraries on the same masters
	@scripts/need redis-server cc
	cargo test -p redquorum-benches

model: ## Explore the model of the protocol in depth
	cargo test --release --test model deep -- --ignored --nocapture --test-threads=1

mutants: ## Break the pure core in every way known, and name what no test notices
	scripts/mutants

simulate: ## Simulate the library from many seeds (SEEDS=10000), or see one of them (SEED=123)
	SEED=$(SEED) SEEDS=$(SEEDS) FROM=$(FROM) cargo test --release --test simulation simulate -- --exact --ignored --nocapture

# BREAK switches a rule off, some rules in a build of its own.
BROKEN_BUILD = RUSTFLAGS="--cfg redquorum_break" CARGO_TARGET_DIR=target/break
chaos: ## Break masters under worker processes (SECONDS=30, SEED=1, BREAK=quorum)
	@scripts/need redis-server cc
	$(if $(filter quorum fresh-tokens,$(BREAK)),$(BROKEN_BUILD)) cargo test --test chaos -- \
		--seconds $(or $(SECONDS),$(if $(BREAK),60,30)) \
		$(if $(SEED),--seed $(SEED)) $(if $(BREAK),--break $(BREAK))

test-compose: ## Run the tests on masters in containers, with faults of the network
	@scripts/need cc
	scripts/test-compose

lint: ## Check the format, and run clippy on everything
	@scripts/need cc openssl
	cargo fmt --check
	cargo clippy --workspace --all-targets --all-features -- -D warnings

docs: ## Build the documentation; a warning is an error
	@scripts/need cc openssl
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --all-features

features: ## Compile with each feature alone, and check the oldest Rust
	scripts/check-features
	scripts/check-msrv

# The first begins the file of figures anew, the others add to it.
bench: ## Compare with the floor and other libraries (15 minutes); OUT=dir for figures and plots
	@scripts/need redis-server cc
	cargo bench -p redquorum-benches --bench compare -- $(if $(OUT),--out $(abspath $(OUT)))
	cargo bench -p redquorum-benches --bench contention -- $(if $(OUT),--out $(abspath $(OUT)))
	cargo bench -p redquorum-benches --bench leases -- $(if $(OUT),--out $(abspath $(OUT)))

bench-core: ## Measure the decisions of the pure core
	cargo bench -p redquorum-benches --bench core

bench-instructions: ## Count instructions and allocations of one acquire and release
	scripts/bench-instructions

bench-life: ## Measure waiting, keeping and losing on local masters (8 minutes)
	@scripts/need redis-server cc
	cargo bench -p redquorum-benches --bench contention
	REDQUORUM_RACES=100000 cargo test --release --test leases --test deleted --test many_leases -- \
		--include-ignored --nocapture --test-threads=1

ci: ## Do what CI does
	.ci/run
