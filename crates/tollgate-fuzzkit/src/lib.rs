//! Runs a fuzz target without a fuzzer: on every file of its corpus, and on changed copies of them.
//!
//! The changes follow from a seed, so that a failure can be repeated. Owns no target: a target is a
//! function of the crate whose code it feeds, which takes any bytes and must not panic. The same
//! functions are run by libFuzzer, guided by coverage (`docs/fuzzing.md`).

mod mutation;

use std::path::{Path, PathBuf};

pub use mutation::Mutator;

/// The seed of the runs that are part of the tests.
pub const SEED: u64 = 0x7011_6a7e;

/// Inputs that a run in a test tries beside the corpus, unless `TOLLGATE_FUZZ_RUNS` says otherwise.
pub const RUNS: usize = 4_000;

fn runs() -> usize {
    std::env::var("TOLLGATE_FUZZ_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS)
}

/// Prints the input at hand if the target panics.
struct Input<'a> {
    name: &'a str,
    bytes: &'a [u8],
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = String::from_utf8_lossy(self.bytes);
            eprintln!("target {} panicked on {:?}, as text: {text}", self.name, self.bytes);
        }
    }
}

/// Runs a target on all files of its corpus and on changed copies of them. Returns the number of runs.
///
/// # Panics
/// If the target does, or if its corpus is empty.
pub fn run_seeded(name: &str, target: impl Fn(&[u8])) -> usize {
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} has no files");
    for bytes in &corpus {
        let _input = Input { name, bytes };
        target(bytes);
    }
    let mut mutator = Mutator::new(SEED);
    let runs = runs();
    for _ in 0..runs {
        let bytes = mutator.next_input(&corpus);
        let _input = Input { name, bytes: &bytes };
        target(&bytes);
    }
    println!("{name}: {} runs", corpus.len() + runs);
    corpus.len() + runs
}

/// The files of a target's corpus, by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files.iter().filter_map(|file| std::fs::read(file).ok()).collect()
}
