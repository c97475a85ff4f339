//! Lists of tests are complete: every row of the page on defects of other projects names a test that exists, so does
//! every test that the page on failure modes names, and every function of the conformance suite is run.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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

/// Fewer would mean that the names are not read any more.
const NAMES_MIN: usize = 80;

#[test]
fn every_test_that_the_page_on_failure_modes_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/operations/failure-modes.md")).unwrap();
    let rows = rows(&page);
    let cells = rows.iter().filter_map(|row| row.last());
    let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).filter(|it| is_name(it));
    let names: BTreeSet<&str> = names.collect();
    assert!(names.len() >= NAMES_MIN, "only {} names", names.len());
    let (mut sources, mut modules) = (Vec::new(), Vec::new());
    collect_sources(&root.join("crates"), &mut sources);
    for source in &sources {
        let text = fs::read_to_string(source).unwrap();
        modules.push((module_of(source), tests_in(&text)));
    }
    let missing: Vec<_> = names.into_iter().filter(|name| !is_in(&modules, name)).collect();
    assert!(missing.is_empty(), "docs/operations/failure-modes.md\n  {}", missing.join("\n  "));
}

#[test]
fn name_of_a_test_may_leave_out_modules_in_front_and_letters_at_a_star() {
    let module = module_of(Path::new("crates/tollgate-a/tests/it/b/c.rs"));
    assert_eq!(module, "b::c");
    let tests = tests_in("    fn one_is_kept() {\n    two_is_lost,\n    three: Death,\n");
    let modules = vec![(module, tests)];
    for there in ["c::one_is_kept", "b::c::two_*", "c::*", "b::*", "*_is_lost", "c::tests::three"] {
        assert!(is_in(&modules, there), "{there}");
    }
    for missing in ["c::four", "d::one_is_kept", "d::*", "c::*_is_found", "c::one"] {
        assert!(!is_in(&modules, missing), "{missing}");
    }
    assert!(is_name("a::b_c_*") && is_name("a_*") && !is_name("just chaos") && !is_name("a"));
}

/// True for the name of a test, or a pattern of names.
fn is_name(text: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit() || "_:*".contains(it);
    text.chars().all(is_letter) && (text.contains("::") || text.contains('*'))
}

fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
}

/// The module of a source file, from the root of its crate or of its tests.
fn module_of(source: &Path) -> String {
    let path = source.with_extension("");
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    let root = parts.iter().rposition(|part| ["it", "src"].contains(part)).map_or(0, |at| at + 1);
    parts[root..].join("::")
}

/// The functions of a file, and the entries of lists that macros make tests of.
fn tests_in(text: &str) -> BTreeSet<String> {
    let name = |line: &str| -> Option<String> {
        let line = line.trim();
        let rest = line.split_once("fn ").map(|(_, rest)| rest).unwrap_or(line);
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_')?;
        (end > 0).then(|| rest[..end].to_owned())
    };
    text.lines().filter_map(name).collect()
}

/// True if a module that ends in the name's modules has such a test.
fn is_in(modules: &[(String, BTreeSet<String>)], name: &str) -> bool {
    let (wanted, test) = name.rsplit_once("::").unwrap_or(("", name));
    // A module of tests is in its own file, or at the end of the one that it tests.
    let inline = wanted.strip_suffix("::tests").unwrap_or(wanted);
    let fits = |module: &str| {
        let padded = format!("::{module}::");
        let ends = |modules: &str| padded.ends_with(&format!("::{modules}::"));
        match test {
            "*" => padded.contains(&format!("::{wanted}::")) || ends(inline),
            _ => wanted.is_empty() || ends(wanted) || ends(inline),
        }
    };
    let mut fitting = modules.iter().filter(|(module, _)| fits(module));
    fitting.any(|(_, tests)| tests.iter().any(|it| matches_pattern(it, test)))
}

/// True if the text is the pattern, in which a star stands for any letters.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let Some((front, back)) = pattern.split_once('*') else { return text == pattern };
    let Some(rest) = text.strip_prefix(front) else { return false };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches_pattern(&rest[at..], back))
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
