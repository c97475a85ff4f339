//! The house rules, checked instead of remembered.
//!
//! Each rule is a function from a tree of files to its list of violations; a test runs it on this
//! workspace and shows all of them at once. Each file's last test runs its rules on a made-up tree, so
//! that a rule which stopped working is noticed. Words that are forbidden in sources are
//! put together from pieces here, so that this file passes its own rules.

mod crates;
mod documents;
mod language;
mod sizes;

use std::path::Path;
use std::{fs, io};

/// Aim for 400; this is where it stops.
const LINES_MAX: usize = 500;

/// Folders that hold no source of ours.
const SKIPPED: [&str; 6] =
    ["target", ".git", ".tools", "node_modules", ".hypothesis", ".schemathesis"];

/// The highest number of a promise (I1, I2, …).
const PROMISES: usize = 16;

#[test]
fn no_rust_file_is_longer_than_five_hundred_lines() {
    check("split these files, one idea per file (aim for 400 lines)", long_files);
}

#[test]
fn every_module_starts_by_saying_what_it_is_for() {
    check("start these files with a //! doc: what it owns, never does, who calls it", undocumented);
}

#[test]
fn no_unfinished_work_is_left_in_sources() {
    check("finish these, or leave them out", unfinished_work);
}

#[test]
fn no_example_is_a_doc_test() {
    check(
        "make these a file in examples/ or a test: the test command runs no doc tests",
        doc_tests,
    );
}

#[test]
fn no_file_names_a_path_of_one_machine_or_a_package_registry() {
    check("these work on one machine only", machine_bound);
}

#[test]
fn the_architecture_names_every_promise() {
    check("ARCHITECTURE.md says where each promise is kept", unnamed_promises);
}

#[test]
fn no_wildcard_arm_in_the_transition_function() {
    check("name the states, so that a new one does not compile unseen", wildcard_arms);
}

type Rule = fn(&[File]) -> Vec<String>;

/// A text file; `path` is relative to the workspace root, with `/`.
struct File {
    path: String,
    text: String,
}

impl File {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    fn is_rust(&self) -> bool {
        self.path.starts_with("crates/") && self.path.ends_with(".rs")
    }

    /// Programs, queries and settings; not prose, data or what others wrote.
    fn is_source(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        !name.starts_with("LICENSE")
            && match name.rsplit_once('.') {
                Some((_, extension)) => ["rs", "sql", "toml", "sh"].contains(&extension),
                None => true,
            }
    }

    /// The lines with an offence in them, each as `path:line: what`.
    fn offences(&self, what: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let numbered = self.text.lines().zip(1..);
        numbered
            .filter_map(|(line, number)| Some(format!("{}:{number}: {}", self.path, what(line)?)))
            .collect()
    }
}

fn check(advice: &str, rule: Rule) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    collect(&root, "", &mut files).expect("the workspace can be read");
    let violations = rule(&files);
    assert!(
        violations.is_empty(),
        "{advice}\n  {}\n({} in all)",
        violations.join("\n  "),
        violations.len()
    );
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) -> io::Result<()> {
    // A build folder may have any name; cargo marks it.
    if folder.join("CACHEDIR.TAG").exists() {
        return Ok(());
    }
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if SKIPPED.contains(&name.as_str()) {
            continue;
        } else if kind.is_dir() {
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else if kind.is_file() {
            // Not text: nothing to judge. Gone since the listing: some test's temporary file.
            if let Ok(text) = fs::read_to_string(entry.path()) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

fn text_of<'a>(files: &'a [File], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
}

fn long_files(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|file| file.is_rust());
    rust.map(|file| (&file.path, file.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(path, lines)| format!("{path}: {lines} lines"))
        .collect()
}

fn undocumented(files: &[File]) -> Vec<String> {
    let rust = files.iter().filter(|file| file.is_rust());
    rust.filter(|file| !file.text.starts_with("//!")).map(|file| file.path.clone()).collect()
}

fn unfinished_work(files: &[File]) -> Vec<String> {
    let markers = [
        ["to", "do!"],
        ["unimple", "mented!"],
        ["db", "g!"],
        ["#[ig", "nore"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["TO", "DO"],
    ]
    .map(|pieces| pieces.concat());
    let sources = files.iter().filter(|file| file.is_source());
    sources
        .flat_map(|file| {
            file.offences(|line| markers.iter().find(|marker| has_word(line, marker)).cloned())
        })
        .collect()
}

/// Doc tests are linked one by one against everything, which takes minutes for a few lines.
fn doc_tests(files: &[File]) -> Vec<String> {
    let fence = |line: &str| {
        let doc = line.trim_start();
        let doc = doc.strip_prefix("//!").or_else(|| doc.strip_prefix("///"))?;
        Some(doc.trim_start().strip_prefix("```")?.to_owned())
    };
    let opened = |file: &File| {
        let fences =
            file.text.lines().enumerate().filter_map(|(n, line)| Some((n + 1, fence(line)?)));
        let opening = fences.step_by(2).filter(|(_, language)| language != "text");
        opening.map(|(n, _)| format!("{}:{n}", file.path)).collect::<Vec<_>>()
    };
    files.iter().filter(|file| file.is_rust()).flat_map(opened).collect()
}

fn machine_bound(files: &[File]) -> Vec<String> {
    let folders = ["work", "root", "home"].map(|name| format!("/{name}/"));
    let hosts = [
        ["registry.npm", "js.org"],
        ["registry.yarn", "pkg.com"],
        ["index.crates", ".io"],
        ["static.crates", ".io"],
        ["pypi", ".org"],
        ["files.python", "hosted.org"],
    ]
    .map(|pieces| pieces.concat());
    files
        .iter()
        .flat_map(|file| {
            file.offences(|line| {
                let folder = folders.iter().find(|folder| has_absolute_path(line, folder));
                folder.or_else(|| hosts.iter().find(|host| line.contains(*host))).cloned()
            })
        })
        .collect()
}

fn unnamed_promises(files: &[File]) -> Vec<String> {
    let text = text_of(files, "ARCHITECTURE.md").unwrap_or_default();
    let promises = (1..=PROMISES).map(|number| format!("I{number}"));
    promises.filter(|promise| !has_word(text, promise)).collect()
}

fn wildcard_arms(files: &[File]) -> Vec<String> {
    let path = "crates/tollgate-model/src/transition.rs";
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return vec![format!("{path} is missing")];
    };
    file.offences(|line| {
        // `_`, and what only looks better: `(_, _)`, `(..)`.
        let (pattern, _) = line.split_once("=>")?;
        let matches_all =
            pattern.contains(['_', '.']) && pattern.chars().all(|c| " \t_(),.|".contains(c));
        matches_all.then(|| line.trim().to_owned())
    })
}

/// `needle` in `text`, not as a part of a longer word.
fn has_word(text: &str, needle: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(needle).any(|(at, _)| {
        let cuts_before = needle.starts_with(is_word) && text[..at].ends_with(is_word);
        let cuts_after =
            needle.ends_with(is_word) && text[at + needle.len()..].starts_with(is_word);
        !cuts_before && !cuts_after
    })
}

/// `folder` in `line` as the start of a path, not inside of a longer path or URL.
fn has_absolute_path(line: &str, folder: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-./}*~".contains(c);
    line.match_indices(folder).any(|(at, _)| !line[..at].ends_with(goes_on))
}

#[test]
fn each_rule_reports_its_own_violations_only() {
    let good = || {
        vec![
            File::new(
                "ARCHITECTURE.md",
                "I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11, **I12** `I13` I14 I15 I16.",
            ),
            File::new(
                "crates/tollgate-model/src/lib.rs",
                "//! A todo list; see ./x/home/ or a.b/home/.\n",
            ),
            File::new(
                "crates/tollgate-model/src/transition.rs",
                "//! T.\n(Queued, _) => 1,\n| Stuck { .. } => 2,\n",
            ),
        ]
    };
    let lib = "crates/tollgate-model/src/lib.rs";
    let transition = "crates/tollgate-model/src/transition.rs";
    let marker = ["// TO", "DO"].concat();
    let unfinished = ["//! A.\nlet x = db", "g!(1);"].concat();
    let folder = ["see /ho", "me/someone"].concat();
    let bad: [(Rule, &str, String); 10] = [
        (long_files, lib, "//! A.\n".repeat(LINES_MAX + 1)),
        (undocumented, lib, "pub mod a;\n".into()),
        (unfinished_work, lib, unfinished),
        (doc_tests, lib, "//! A.\n//! ```text\n//! ```\n/// ```no_run\n/// ```\n".into()),
        (unfinished_work, "scripts/setup", marker.replace("//", "#")),
        (machine_bound, "README.md", folder),
        (machine_bound, "a.json", ["https://registry.npm", "js.org/a"].concat()),
        (
            unnamed_promises,
            "ARCHITECTURE.md",
            "I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12 I13 I14 I15 I16".into(),
        ),
        (wildcard_arms, transition, "    _ => {}".into()),
        (wildcard_arms, transition, "(_, _) => {}".into()),
    ];
    for (rule, path, text) in &bad {
        assert_eq!(rule(&good()), [""; 0], "the good tree, by the rule for {path}: {text}");
        let mut tree = good();
        tree.retain(|file| file.path != *path);
        tree.push(File::new(path, text));
        assert_eq!(rule(&tree).len(), 1, "{path}: {text}");
    }
}
