//! The table of settings for people: an example file and the tables of the documentation.

use std::fmt::Write;

#[cfg(test)]
use super::keys::Key;
use super::keys::{KEYS, Preset};

/// A complete file with the defaults, each explained.
pub(crate) fn example() -> String {
    let mut page = "# Tollgate's settings with their defaults. Those without one are commented out.\n\
                    # Flags win over variables, variables over this file. Durations are like 500ms,\n\
                    # 10s, 5m or 1h; amounts are in wei, or like \"100 gwei\" or \"0.5 ether\".\n"
        .to_owned();
    let mut section = "";
    for key in KEYS.iter() {
        if key.section() != section {
            section = key.section();
            let _ = write!(page, "\n[{section}]\n");
        }
        page.push('\n');
        let about = format!("{} ({})", key.about, key.kind.words());
        for line in wrapped(&about.replace('`', ""), 94) {
            let _ = writeln!(page, "# {line}");
        }
        if let Preset::Found(words) = key.preset {
            let _ = writeln!(page, "# Default: {}.", words.replace('`', ""));
        }
        let sign = if matches!(key.preset, Preset::Value(_)) { "" } else { "# " };
        let _ = writeln!(page, "{sign}{}", super::file::example(key));
    }
    page
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The tables of `docs/config.md`.
#[cfg(test)]
pub(super) fn tables() -> String {
    let mut page = String::new();
    let mut section = None;
    for key in KEYS.iter() {
        if section != Some(key.section()) {
            section = Some(key.section());
            let title = match key.section() {
                "" => "## At the top".to_owned(),
                name => format!("## `[{name}]`"),
            };
            let space = if page.is_empty() { "" } else { "\n" };
            let _ = write!(page, "{space}{title}\n\n{HEADER}");
        }
        page.push_str(&row(key));
    }
    page.push_str("\n### An endpoint of `chain.rpc_urls`\n\n| field | kind | default | meaning |\n|---|---|---|---|\n");
    for (name, kind, preset, about) in super::endpoints::FIELDS {
        let preset =
            if preset.is_empty() { "must be given".to_owned() } else { format!("`{preset}`") };
        let _ = writeln!(page, "| `{name}` | {kind} | {preset} | {about} |");
    }
    page
}

#[cfg(test)]
const HEADER: &str =
    "| key | kind | default | variable | flag | meaning |\n|---|---|---|---|---|---|\n";

#[cfg(test)]
fn row(key: &Key) -> String {
    let preset = match key.preset {
        Preset::Value(value) => format!("`{value}`"),
        Preset::None => "none".to_owned(),
        Preset::Found(words) => words.to_owned(),
    };
    let variables: Vec<String> = key.variables().iter().map(|name| format!("`{name}`")).collect();
    let flag = key.flag.map_or_else(String::new, |flag| format!("`--{flag}`"));
    format!(
        "| `{}` | {} | {preset} | {} | {flag} | {} |\n",
        key.name,
        key.kind.words(),
        variables.join(", "),
        key.about
    )
}
