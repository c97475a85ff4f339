//! Names and comments that a stranger understands.

use std::collections::{BTreeMap, BTreeSet};

use super::{File, check};

/// Words that start a riddle instead of a statement: "What is kept of each.", "Who signs."
const RIDDLE_STARTS: [&str; 10] =
    ["What", "Who", "Whom", "Whose", "Which", "Whether", "It", "How", "Where", "Why"];

/// Modules of one crate whose names differ by one letter: `(crate, one, other)`. Only goes down.
const SIMILAR_MODULES: [(&str, &str, &str); 11] = [
    // Names of programs and of an RPC namespace.
    ("tollgate-devchain", "eth", "geth"),
    ("tollgate-devchain", "eth", "reth"),
    ("tollgate-evm", "nonce", "nonces"),
    ("tollgate-evm", "pool", "pools"),
    ("tollgate-evm", "rule", "rules"),
    ("tollgate-server", "field", "fields"),
    ("tollgate-server", "file", "files"),
    ("tollgate-server", "problem", "problems"),
    ("tollgate-server", "submitter", "submitters"),
    ("tollgate-testkit", "node", "nodes"),
    ("tollgate-testkit", "program", "programs"),
];

/// Below this length, words with one other letter are usually different words: mode and node.
const SUBSTITUTION_LENGTH_MIN: usize = 6;

#[test]
fn doc_comments_are_statements() {
    check("start with a noun or a verb; docs/glossary.md has the words", riddles);
}

#[test]
fn no_two_modules_of_a_crate_differ_by_one_letter() {
    check("rename one of each pair", similar_modules);
}

/// The crate of a Rust file: its folder below `crates/`, or `bench`.
fn crate_of(file: &File) -> Option<&str> {
    let path = file.path.strip_suffix(".rs")?;
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split('/').next(),
        None => path.starts_with("bench/").then_some("bench"),
    }
}

fn riddles(files: &[File]) -> Vec<String> {
    let counted = files.iter().filter(|file| crate_of(file).is_some());
    let counted = counted.map(|file| (&file.path, riddles_in(&file.text)));
    let words = RIDDLE_STARTS.join(", ");
    let found = counted.filter(|(_, count)| *count > 0);
    found
        .map(|(path, count)| format!("{path}: {count} doc comments start with one of {words}"))
        .collect()
}

/// Doc comments that start with one of the words. Only the first line of a comment counts.
fn riddles_in(text: &str) -> usize {
    let doc = |line: &str| {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
        Some(text.trim_start().to_owned())
    };
    let mut is_inside = false;
    let mut count = 0;
    for line in text.lines() {
        let text = doc(line);
        if let Some(text) = text.as_ref().filter(|_| !is_inside) {
            let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            count += usize::from(RIDDLE_STARTS.contains(&first));
        }
        is_inside = text.is_some();
    }
    count
}

fn similar_modules(files: &[File]) -> Vec<String> {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files {
        let Some(krate) = crate_of(file).filter(|_| file.path.contains("/src/")) else { continue };
        let name = file.path.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
        modules.entry(krate).or_default().extend(name);
    }
    let mut violations = Vec::new();
    for (krate, names) in modules {
        for one in &names {
            for other in names.range(*one..).skip(1) {
                let is_listed = SIMILAR_MODULES.contains(&(krate, *one, *other));
                if differ_by_one_letter(one, other) && !is_listed {
                    violations.push(format!("{krate}: {one} and {other}"));
                }
            }
        }
    }
    violations
}

fn differ_by_one_letter(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let same = short.bytes().zip(long.bytes()).take_while(|(a, b)| a == b).count();
    match long.len() - short.len() {
        0 if same == short.len() => false,
        0 => short.len() >= SUBSTITUTION_LENGTH_MIN && short[same + 1..] == long[same + 1..],
        1 => short[same..] == long[same + 1..],
        _ => false,
    }
}

#[test]
fn rules_report_a_bad_tree_and_pass_a_good_one() {
    let statement = "/// The key. What follows is free.\n/// What continues a comment is free.\n";
    let good = || {
        vec![
            File::new("crates/tollgate-http/src/tls.rs", statement),
            File::new("crates/tollgate-http/src/mode.rs", "//! Modes."),
            File::new("crates/tollgate-http/src/node.rs", "//! Nodes."),
            File::new("crates/tollgate-signer/src/modes.rs", "//! Another crate."),
            File::new("crates/tollgate-http/tests/it/modes.rs", "//! Not a module of the crate."),
        ]
    };
    assert_eq!(riddles(&good()), [""; 0]);
    assert_eq!(similar_modules(&good()), [""; 0]);
    let riddle = File::new("crates/tollgate-http/src/a.rs", "//! A.\n\n    /// Who signs.\n");
    assert_eq!(riddles(&[riddle]).len(), 1);
    for name in ["modes", "nodde"] {
        let mut tree = good();
        tree.push(File::new(&format!("crates/tollgate-http/src/{name}.rs"), "//! B."));
        assert_eq!(similar_modules(&tree).len(), 1, "{name}");
    }
    assert!(differ_by_one_letter("sender", "render") && !differ_by_one_letter("tx", "tx"));
}
