# Shortcuts; each is a line of plain shell or cargo that works without just.

# format, lints, the build of what ships, tests
test *args:
    ./test {{ args }}

# the tests only; arguments go to the runner
quick *args:
    ./test --quick -- {{ args }}

# format everything
fmt:
    cargo fmt --all

# the lints alone
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# licences, advisories, banned crates, sources; advisories need the network (cargo install cargo-deny --locked)
deny *checks:
    cargo deny --locked check {{ checks }}

# install all that the tests can use
setup:
    scripts/setup all

# a ceiling and a whole node in turns, into docs/performance.md; `just bench growth` for curves, `just bench stores` for
# the stores alone, `--quick` to see whether it works (docs/bench.md)
bench *args:
    cargo build --profile dist --locked -p tollgate-server
    cargo run --profile dist --locked -p tollgate-bench -- {{ args }}

# a whole node under load, with database and chain on this machine; arguments: scripts/bench-node --help
load *args:
    scripts/bench-node {{ args }}

# so many simulated worlds, from one seed each; a failing one is named (docs/simulation.md)
sim SEEDS="10000" FROM="0":
    cargo run --release -p tollgate-sim -- seeds {{ SEEDS }} {{ FROM }}

# all events of one simulated world
sim-replay SEED *bug:
    cargo run --release -p tollgate-sim -- replay {{ SEED }} {{ bug }}

# which seed notices each planted mistake first
sim-bugs:
    cargo run --release -p tollgate-sim -- bugs

# of `chaos`: how long, and what is drawn
MINUTES := "10"
SEED := "1"

# real processes, broken by the plan of a seed, and a verdict: just chaos MINUTES=10 SEED=7 (docs/chaos.md)
chaos *args:
    cargo build --release -p tollgate-server
    cargo run --release -p tollgate-chaos -- MINUTES={{ MINUTES }} SEED={{ SEED }} {{ args }}

# plants small mistakes one at a time, in a crate or in what changed, and tells which no test notices:
# just mutants tollgate-model, just mutants changed (docs/mutants.md)
mutants WHAT="changed" *args:
    scripts/mutants {{ WHAT }} {{ args }}

# Patroni's primary is killed under load, several times, and a verdict: scripts/patroni --help (docs/operations/postgres.md)
patroni *args:
    scripts/setup postgres patroni
    cargo build --release -p tollgate-server
    scripts/patroni {{ args }}

# the processor time of a node with many idle chains: scripts/idle-chains --help (docs/chains.md)
idle-chains *args:
    cargo build --release -p tollgate-server
    scripts/idle-chains {{ args }}

# what is shipped: static binary, bill of materials, archive, checksums (docs/operations/deploy.md)
dist:
    scripts/dist

# runs a fuzz target under libFuzzer for some seconds, or all of them one after another (docs/fuzzing.md)
fuzz TARGET="all" SECONDS="60" *args:
    scripts/fuzz {{ TARGET }} {{ SECONDS }} {{ args }}

# checks a node against its own OpenAPI document for so many seconds (docs/security.md)
schemathesis SECONDS="600" *args:
    scripts/setup schemathesis
    cargo build --profile smoke --locked -p tollgate-server --bin tollgate
    scripts/schemathesis --seconds {{ SECONDS }} {{ args }}
