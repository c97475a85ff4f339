//! The files of `packaging/` use flags, variables and metrics that the binary has.

mod expressions;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::program::{Ran, command};

/// Flags of other programs that the files call.
const FOREIGN_FLAGS: &[&str] = &[
    "--chown",
    "--file",
    "--tag",
    "--block-time",
    "--bin",
    "--from",
    "--host",
    "--locked",
    "--mount",
    "--package",
    "--profile",
    "--start-period",
    "--timeout",
    "--interval",
    "--retries",
];

/// Variables of `tollgate` that are no settings.
const OTHER_VARIABLES: &[&str] = &["TOLLGATE_URL", "TOLLGATE_CONFIG"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// The words of a text that begin so, up to a character that no flag and no variable has.
fn words<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins = move |at: &usize| !text[..*at].ends_with(is_part);
    text.match_indices(start).map(|(at, _)| at).filter(begins).map(move |at| {
        let length = text[at..].find(|c| !is_part(c)).unwrap_or(text.len() - at);
        text[at..at + length].trim_end_matches(['-', '_'])
    })
}

#[test]
fn every_flag_and_variable_of_the_packages_exists() {
    let mut flags: BTreeSet<String> = FOREIGN_FLAGS.iter().map(|&flag| flag.to_owned()).collect();
    for name in [&["serve"][..], &["health"], &["migrate"], &["api-key", "new"]] {
        let help = Ran::of(command().args(name).arg("--help")).out;
        flags.extend(words(&help, "--").map(str::to_owned));
    }
    let settings = std::fs::read_to_string(root().join("docs/config.md")).unwrap();
    let mut known: BTreeSet<&str> = words(&settings, "TOLLGATE_").collect();
    known.extend(OTHER_VARIABLES);
    let (mut problems, mut used) = (Vec::new(), 0);
    for path in files(&root().join("packaging")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let flags = words(&text, "--").filter(|flag| flag.len() > 2 && !flags.contains(*flag));
        let variables = words(&text, "TOLLGATE_").filter(|name| !known.contains(name));
        problems.extend(flags.chain(variables).map(|word| format!("{}: {word}", path.display())));
        used += words(&text, "TOLLGATE_").count();
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(used > 10, "only {used} variables were found");
}

#[test]
fn image_and_chart_name_the_versions_of_the_workspace() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let manifest = read("Cargo.toml");
    let value = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        line.unwrap().trim_matches('"').to_owned()
    };
    let image = read("packaging/docker/Dockerfile");
    assert!(image.contains(&format!("ARG RUST_VERSION={}", value("rust-version"))), "{image}");
    let chart = read("packaging/helm/tollgate/Chart.yaml");
    assert!(chart.contains(&format!("appVersion: {:?}", value("version"))), "{chart}");
}
