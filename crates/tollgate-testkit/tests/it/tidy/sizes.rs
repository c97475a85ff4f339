//! The size that types may reach: one with more methods holds two ideas.

use std::collections::BTreeMap;

use super::{File, check};

/// The most methods of one type of the engine's workers, over all of its `impl` blocks.
const METHODS_MAX: usize = 30;
/// The folder that the rule is about.
const WORKER: &str = "crates/tollgate-engine/src/worker";

#[test]
fn no_type_of_the_worker_has_more_than_thirty_methods() {
    check("split these types: a part of the fields, with the methods on it", crowded_types);
}

/// The types with too many methods. Blocks and methods are told by their indentation, which rustfmt makes.
fn crowded_types(files: &[File]) -> Vec<String> {
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with(WORKER)) {
        let mut subject = None;
        for line in file.text.lines() {
            if let Some(name) = inherent_impl(line) {
                subject = Some(name.to_owned());
            } else if line == "}" {
                subject = None;
            }
            if let Some(name) = subject.as_ref().filter(|_| is_method(line)) {
                *methods.entry(name.clone()).or_default() += 1;
            }
        }
    }
    let crowded = methods.into_iter().filter(|(_, count)| *count > METHODS_MAX);
    crowded.map(|(name, count)| format!("{name}: {count} methods")).collect()
}

/// The type of an `impl` block that is no trait's.
fn inherent_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let named = rest.rsplit_once("> ").map_or(rest, |(_, named)| named);
    let is_trait = rest.contains(" for ");
    named.trim().split([' ', '<', '{']).next().filter(|name| !is_trait && !name.is_empty())
}

fn is_method(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' ')) else {
        return false;
    };
    let words = rest.split("fn ").next().unwrap_or_default();
    let is_qualifier = |word: &str| {
        ["pub", "const", "async", "unsafe", "crate::worker)"].contains(&word)
            || word.starts_with("pub(")
    };
    rest.contains("fn ") && words.split_whitespace().all(is_qualifier)
}

#[test]
fn methods_are_counted_over_all_blocks_of_a_type_and_traits_do_not_count() {
    let method = |n: usize| format!("    pub(super) const fn m{n}(&self) {{\n    }}\n");
    let methods: String = (0..16).map(method).collect();
    let block = format!("impl Desk {{\n{methods}}}\n");
    let file = |name: &str, text: &str| File::new(&format!("{WORKER}/{name}.rs"), text);
    let other = format!(
        "impl Clone for Desk {{\n{methods}}}\nimpl<'a> Desk<'a> {{\n    fn n() {{\n    }}\n}}\n"
    );
    assert!(crowded_types(&[file("a", &block), file("b", &other)]).is_empty());
    assert_eq!(crowded_types(&[file("a", &block), file("c", &block)]), ["Desk: 32 methods"]);
    let call = "impl Desk {\n    // the fn is not one\n        fn inner() {\n";
    assert!(crowded_types(&[file("d", &call.repeat(40))]).is_empty());
}
