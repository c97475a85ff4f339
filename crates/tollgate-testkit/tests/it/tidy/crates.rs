//! The direction of dependencies between crates.

use super::{File, check, text_of};

/// `(crate, the Tollgate crates that it may depend on)`, without the prefix `tollgate-`. Lists every
/// crate. ARCHITECTURE.md shows the same lines under "Direction". Development dependencies are free.
const DIRECTIONS: [(&str, &str); 23] = [
    ("model", ""),
    ("api", "model"),
    ("metrics", "model"),
    ("http", ""),
    ("nats", ""),
    ("devchain", ""),
    ("fuzzkit", ""),
    ("proofs", ""),
    ("engine", "metrics model"),
    ("postgres", "metrics model"),
    ("sqlite", "metrics model"),
    ("signer", "model"),
    ("evm", "http metrics model"),
    ("hook", "api http model"),
    ("alert", "api hook http model"),
    ("client", "api http model signer"),
    ("load", "api client evm http model"),
    (
        "server",
        "alert api client devchain engine evm hook http load metrics model nats postgres \
         signer sqlite",
    ),
    ("testkit", "devchain engine evm model postgres signer sqlite"),
    ("sim", "devchain engine evm model signer sqlite testkit"),
    ("chaos", "api devchain testkit"),
    ("bench", "api devchain engine model testkit"),
    ("fuzz", "evm server signer"),
];

/// `(crate, packages of others that it must not depend on)`. A `*` stands for any rest.
const FORBIDDEN: [(&str, &str); 2] = [
    ("model", "tokio tokio-postgres rusqlite reqwest axum hyper alloy-provider alloy-transport*"),
    (
        "engine",
        "tokio-postgres deadpool-postgres rusqlite axum hyper reqwest alloy-provider \
         alloy-transport*",
    ),
];

#[test]
fn crates_depend_on_each_other_in_the_allowed_direction_only() {
    check("see DIRECTIONS and FORBIDDEN", wrong_dependencies);
}

#[test]
fn architecture_shows_the_direction_of_every_crate() {
    check("ARCHITECTURE.md, Direction: show these lines", undocumented_directions);
}

fn line(krate: &str, allowed: &str) -> String {
    let allowed = if allowed.is_empty() { "nothing" } else { allowed };
    format!("{krate} → {}", allowed.replace(' ', ", "))
}

fn undocumented_directions(files: &[File]) -> Vec<String> {
    let text = text_of(files, "ARCHITECTURE.md").unwrap_or_default();
    let lines = DIRECTIONS.map(|(krate, allowed)| line(krate, allowed));
    lines.into_iter().filter(|line| !text.lines().any(|other| other == line)).collect()
}

fn wrong_dependencies(files: &[File]) -> Vec<String> {
    let mut violations = Vec::new();
    let manifests = files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let name =
            folder.strip_prefix("crates/tollgate-").or((folder == "bench").then_some(folder));
        Some((name.unwrap_or(folder), dependencies(&file.text)))
    });
    let manifests: Vec<(&str, Vec<String>)> = manifests.collect();
    for (krate, _) in DIRECTIONS {
        if !manifests.iter().any(|(name, _)| *name == krate) {
            violations.push(format!("{krate} is listed, but does not exist"));
        }
    }
    for (krate, names) in manifests {
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(listed, _)| *listed == krate) else {
            violations.push(format!("{krate} is not listed in DIRECTIONS"));
            continue;
        };
        let forbidden = FORBIDDEN.iter().find(|(listed, _)| *listed == krate);
        let forbidden = forbidden.map_or("", |(_, packages)| *packages);
        for name in names {
            let is_wrong = match name.strip_prefix("tollgate-") {
                Some(ours) => !allowed.split_whitespace().any(|allowed| allowed == ours),
                None => forbidden.split_whitespace().any(|pattern| matches(pattern, &name)),
            };
            if is_wrong {
                violations.push(format!("{krate} must not depend on {name}"));
            }
        }
    }
    violations
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// The names (of packages, where renamed) under `[dependencies]`, build and per-target ones too.
fn dependencies(manifest: &str) -> Vec<String> {
    let is_table = |name: &str| {
        let name = name.rsplit('.').next().unwrap_or_default();
        name == "dependencies" || name == "build-dependencies"
    };
    let unquoted = |name: &str| name.trim().trim_matches(['"', '\'']).to_owned();
    let package = |line: &str| {
        let (_, rest) = line.split_once("package")?;
        rest.trim_start().strip_prefix('=')?.split('"').nth(1).map(str::to_owned)
    };
    let mut names: Vec<String> = Vec::new();
    let (mut in_list, mut in_one) = (false, false);
    for line in manifest.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if let Some(header) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            // `[dependencies]` lists many; `[dependencies.NAME]` describes one.
            let header = header.0.trim();
            in_list = is_table(header);
            let one = header.rsplit_once('.').filter(|(table, _)| !in_list && is_table(table));
            in_one = one.is_some();
            names.extend(one.map(|(_, name)| unquoted(name)));
        } else if let Some((key, value)) = line.split_once('=').filter(|_| in_list) {
            let key = key.split('.').next().unwrap_or_default();
            names.push(package(value).unwrap_or_else(|| unquoted(key)));
        } else if let Some(package) = package(line).filter(|_| in_one) {
            names.pop();
            names.push(package);
        }
    }
    names
}

#[test]
fn rules_report_a_bad_tree_and_pass_a_good_one() {
    let good = || {
        let mut tree: Vec<File> = DIRECTIONS
            .iter()
            .map(|(krate, allowed)| {
                let folder = match *krate {
                    "bench" => "bench".to_owned(),
                    krate => format!("crates/tollgate-{krate}"),
                };
                let dependencies: String = allowed
                    .split_whitespace()
                    .map(|name| format!("tollgate-{name}.workspace = true\n"))
                    .collect();
                let free = "[dev-dependencies]\ntokio = \"1\"\ntollgate-server.workspace = true\n";
                let text = format!("[dependencies]\n{dependencies}{free}");
                File::new(&format!("{folder}/Cargo.toml"), &text)
            })
            .collect();
        let lines = DIRECTIONS.map(|(krate, allowed)| line(krate, allowed));
        tree.push(File::new("ARCHITECTURE.md", &lines.join("\n")));
        tree
    };
    let model = "crates/tollgate-model/Cargo.toml";
    let server = "crates/tollgate-server/Cargo.toml";
    let bad = [
        (model, "[dependencies]\ntokio = \"1\""),
        (model, "[dependencies]\ntollgate-sqlite.workspace = true"),
        (model, "[dependencies.x]\npackage = \"alloy-transport-ws\""),
        (model, "[target.'cfg(unix)'.dependencies]\nhyper = \"1\""),
        (model, "[dependencies]\nx = { package = \"axum\" }"),
        (server, "[build-dependencies]\ntollgate-testkit = \"1\""),
        ("crates/tollgate-new/Cargo.toml", ""),
    ];
    assert_eq!(wrong_dependencies(&good()), [""; 0]);
    assert_eq!(undocumented_directions(&good()), [""; 0]);
    for (path, text) in bad {
        let mut tree = good();
        tree.retain(|file| file.path != path);
        tree.push(File::new(path, text));
        assert_eq!(wrong_dependencies(&tree).len(), 1, "{path}: {text}");
    }
    let mut tree = good();
    tree.retain(|file| file.path != server);
    assert_eq!(wrong_dependencies(&tree), ["server is listed, but does not exist"]);
    tree.retain(|file| file.path != "ARCHITECTURE.md");
    assert_eq!(undocumented_directions(&tree).len(), DIRECTIONS.len());
}
