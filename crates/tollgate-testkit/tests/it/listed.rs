//! Lists of tests are complete: every row of the page on defects of other projects names a test that exists,
//! and every function of the conformance suite is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The text in the place of a test that can't exist yet.
const NOT_YET: &str = "not yet";

/// Fewer would mean that the tables are not read any more.
const ROWS_MIN: usize = 50;

#[test]
fn every_row_of_the_page_has_a_test_that_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/field.md")).unwrap();
    let read = |path: &str| fs::read_to_string(root.join(path)).ok();
    let rows = rows(&page);
    assert!(rows.len() >= ROWS_MIN, "only {} rows", rows.len());
    let faults: Vec<String> = rows.iter().flat_map(|row| faults(row, &read)).collect();
    assert!(faults.is_empty(), "docs/field.md\n  {}", faults.join("\n  "));
    let first: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(first.len(), rows.len(), "a row is there twice");
}

#[test]
fn row_without_a_test_and_missing_test_are_reported() {
    let read = |path: &str| {
        let text = match path {
            "crates/tollgate-a/tests/it/b.rs" => {
                "#[tokio::test]\nasync fn here() {\n}\nfn helper() {\n}\n\
                 everywhere! {\n    scenario,\n}\nasync fn scenario(store: StoreKind) {\n}\n\
                 deaths! {\n    dies: Sending,\n}\n"
            }
            "crates/tollgate-a/src/c.rs" => "mod tests {\n    #[test]\n    fn inside() {\n",
            "crates/tollgate-a/src/conformance/d.rs" => {
                "pub async fn kept(fixture: &dyn StoreFixture) {\n"
            }
            _ => return None,
        };
        Some(text.to_owned())
    };
    let check = |cell: &str| faults(&["x", "y", cell], &read).len();
    for good in ["here", "scenario", "dies"].map(|name| format!("`a::b::{name}`")) {
        assert_eq!(check(&good), 0, "{good}");
    }
    assert_eq!(check("`a::c::tests::inside`, `a::conformance::d::kept`"), 0);
    assert_eq!(check("not yet: nothing is there"), 0);
    for bad in ["", "later", "`a::b::gone`", "`a::b::helper`", "`a::z::here`", "`a::b::her`"] {
        assert_eq!(check(bad), 1, "{bad:?}");
    }
    assert_eq!(check("`a::b::here`, `a::b::gone`"), 1, "one of two is not enough");
    let page = "| a | b | c |\n|---|---|---|\n| 1 | 2 | 3 |\n\ntext\n";
    assert_eq!(rows(page), [vec!["1", "2", "3"]]);
}

/// The rows of all tables, without their heads.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines: Vec<&str> = page.lines().collect();
    let is_rule = |line: &str| line.starts_with("|---");
    let is_head = |place: usize| lines.get(place + 1).is_some_and(|next| is_rule(next));
    let body = lines
        .iter()
        .enumerate()
        .filter(|(place, line)| line.starts_with('|') && !is_rule(line) && !is_head(*place));
    body.map(|(_, line)| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The problems of a row, whose last cell names the tests.
fn faults(row: &[&str], read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let cell = row.last().copied().unwrap_or_default();
    if cell.starts_with(NOT_YET) {
        return Vec::new();
    }
    let names: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if names.is_empty() {
        return vec![format!("{}: no test, and no word that there is none", row[0])];
    }
    let missing = names.into_iter().filter(|name| !exists(name, read));
    missing.map(|name| format!("{name} is not there")).collect()
}

/// True if `crate::module::name` is a test of `tollgate-crate`.
fn exists(name: &str, read: &dyn Fn(&str) -> Option<String>) -> bool {
    let Some((krate, path)) = name.split_once("::") else { return false };
    let Some((modules, test)) = path.rsplit_once("::") else { return false };
    let modules = modules.replace("::", "/");
    // A module of tests is in its own file, or at the end of the one that it tests.
    let inline = modules.strip_suffix("/tests").unwrap_or(&modules);
    let files = [
        format!("crates/tollgate-{krate}/tests/it/{modules}.rs"),
        format!("crates/tollgate-{krate}/src/{modules}.rs"),
        format!("crates/tollgate-{krate}/src/{inline}.rs"),
    ];
    let is_suite = modules.starts_with("conformance/");
    files.iter().filter_map(|file| read(file)).any(|text| is_test(&text, test, is_suite))
}

/// True if a file has a function of this name that is run as a test: by an attribute, from a list
/// that a macro reads, or as a part of the conformance suite.
fn is_test(text: &str, name: &str, is_suite: bool) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let listed = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest == "," || rest.starts_with(": "))
    };
    if lines.iter().any(listed) {
        return true;
    }
    let defined = lines.iter().position(|line| {
        let rest = line.split_once("fn ").and_then(|(_, rest)| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    });
    let Some(at) = defined else { return false };
    let attributes = lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let mut attributes = attributes.filter(|line| line.contains("test"));
    attributes.next().is_some() || is_suite && lines[at].starts_with("pub async fn ")
}

#[test]
fn every_function_of_the_suite_is_in_a_list() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lists = fs::read_to_string(sources.join("conformance.rs")).unwrap();
    let mut functions = 0;
    for entry in fs::read_dir(sources.join("conformance")).unwrap() {
        let path = entry.unwrap().path();
        let area = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (_, listed) = lists.split_once(&format!(" {area} {{")).unwrap_or_else(|| {
            panic!("the area {area} is in no list");
        });
        let (listed, _) = listed.split_once('}').unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let (name, _) = line.split_once('(').unwrap();
            assert!(listed.contains(&format!(" {name},")), "{area}::{name} is in no list");
            functions += 1;
        }
    }
    assert!(functions > 80, "only {functions} were found: is the search still right?");
}
