//! The files of `packaging/` use flags and variables that the binary has.

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

/// The paths that a source includes at compile time, with a blank where a part is not a literal. What follows the
/// first `#[cfg(test)]` is in no binary.
fn included(source: &str) -> Vec<String> {
    let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
    let calls = ["include_str!(", "include_bytes!(", "include!("];
    let after = calls.iter().flat_map(|call| shipped.split(call).skip(1));
    let statements = after.map(|text| text.split(';').next().unwrap_or_default());
    let literals = statements.map(|text| text.split('"').skip(1).step_by(2).collect::<Vec<_>>());
    literals.map(|literals| literals.join(" ")).collect()
}

/// The files and folders outside `crates/` that the crates of the image include at compile time.
fn included_from_outside() -> BTreeSet<String> {
    let mut outside = BTreeSet::new();
    let crates = root().join("crates").canonicalize().unwrap();
    for source in files(&crates) {
        let inside = source.strip_prefix(&crates).unwrap();
        let mut parts = inside.components().skip(1).map(|part| part.as_os_str());
        let is_shipped = parts.next() == Some("src".as_ref()) && parts.all(|part| part != "tests");
        if !is_shipped || source.extension() != Some("rs".as_ref()) {
            continue;
        }
        for path in included(&std::fs::read_to_string(&source).unwrap()) {
            let fixed = path.split(' ').next().unwrap_or_default();
            let folder = fixed.rsplit_once('/').map_or("", |(folder, _)| folder);
            let target = source.parent().unwrap().join(folder).canonicalize();
            let Ok(target) = target else { continue };
            if !target.starts_with(&crates) {
                let target = target.strip_prefix(crates.parent().unwrap()).unwrap();
                outside.insert(target.display().to_string());
            }
        }
    }
    outside
}

#[test]
fn image_has_every_file_that_the_sources_include_from_elsewhere() {
    assert_eq!(
        included(
            "a(include_str!(concat!(\"../x/\", $name, \".md\")));\n#[cfg(test)]\ninclude_str!(\"y\");"
        ),
        ["../x/ .md"]
    );
    let outside = included_from_outside();
    assert!(outside.contains("docs/errors"), "{outside:?}");
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (image, ignored) = (read("packaging/docker/Dockerfile"), read(".dockerignore"));
    for folder in outside {
        let copy = format!("COPY {folder} {folder}");
        assert!(image.lines().any(|line| line == copy), "the Dockerfile lacks {copy}");
        let kept = format!("!{folder}");
        assert!(ignored.lines().any(|line| line == kept), ".dockerignore lacks {kept}");
    }
}

/// Everything that the image is built from passes `.dockerignore`.
#[test]
fn image_copies_nothing_that_is_ignored_or_missing() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (image, ignored) = (read("packaging/docker/Dockerfile"), read(".dockerignore"));
    let copies = image.lines().filter_map(|line| line.strip_prefix("COPY "));
    let sources = copies.filter(|line| !line.starts_with("--from")).flat_map(|line| {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.pop();
        words
    });
    for source in sources {
        assert!(root().join(source).exists(), "{source} does not exist");
        assert!(ignored.lines().any(|line| line == format!("!{source}")), "{source} is ignored");
    }
}

#[test]
fn service_manager_can_reload_the_unit() {
    let unit = root().join("packaging/systemd/tollgate.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.lines().any(|line| line == "ExecReload=/bin/kill -HUP $MAINPID"), "{unit}");
}

/// The paths of the values of a chart: `image.tag`. Understands the YAML of `values.yaml` only: two blanks for each
/// level.
fn value_paths(yaml: &str) -> BTreeSet<String> {
    let (mut paths, mut open) = (BTreeSet::new(), Vec::<&str>::new());
    for line in yaml.lines() {
        let text = line.trim_start();
        let Some((name, _)) = text.split_once(':').filter(|_| !text.starts_with('#')) else {
            continue;
        };
        open.truncate((line.len() - text.len()) / 2);
        open.push(name);
        paths.insert(open.join("."));
    }
    paths
}

/// The values that templates use: `.Values.image.tag`.
fn used_values(template: &str) -> BTreeSet<String> {
    let rest = template.split(".Values.").skip(1);
    let path = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(text.len());
        text[..end].trim_end_matches('.').to_owned()
    };
    rest.map(path).collect()
}

/// A value is described by the chart's schema.
fn is_in_schema(schema: &serde_json::Value, path: &str) -> bool {
    let resolve = |part: &serde_json::Value| match part["$ref"].as_str() {
        Some(name) => schema["definitions"][name.rsplit('/').next().unwrap()].clone(),
        None => part.clone(),
    };
    let mut part = resolve(schema);
    for name in path.split('.') {
        let next = resolve(&part["properties"][name]);
        if next.is_null() {
            // Some values are any object, like labels.
            return part["properties"].is_null() && part["type"] == "object";
        }
        part = next;
    }
    true
}

#[test]
fn every_value_of_the_chart_is_declared_described_and_used() {
    let chart = root().join("packaging/helm/tollgate");
    let read = |name: &str| std::fs::read_to_string(chart.join(name)).unwrap();
    let declared = value_paths(&read("values.yaml"));
    assert!(declared.contains("serviceMonitor.apiKeySecret"), "{declared:?}");
    let schema: serde_json::Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let templates = files(&chart.join("templates"));
    let texts = templates.iter().map(|path| std::fs::read_to_string(path).unwrap());
    let used: BTreeSet<String> = texts.flat_map(|text| used_values(&text)).collect();
    for path in &used {
        assert!(declared.contains(path), "values.yaml lacks {path}, which a template uses");
    }
    for path in &declared {
        assert!(is_in_schema(&schema, path), "values.schema.json lacks {path}");
        // A template may use a whole table at once.
        let is_used = used.iter().any(|used| {
            let under =
                |long: &str, short: &str| long == short || long.starts_with(&format!("{short}."));
            under(path, used) || under(used, path)
        });
        assert!(is_used, "no template uses {path}");
    }
}
