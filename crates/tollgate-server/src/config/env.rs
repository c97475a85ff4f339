//! Settings from the environment: variables that start with `TOLLGATE_`.

use std::ffi::OsString;

use tollgate_model::account::KEY_VARIABLE_PREFIX;

use super::keys::{KEYS, Key};
use super::load::Layer;
use super::redact::plain_text;
use super::value::{Problem, Source, SourcedValue};

/// The variable that names the file.
pub(crate) const CONFIG: &str = "TOLLGATE_CONFIG";

/// Variables that are no settings.
const OTHERS: [&str; 6] = [
    CONFIG,
    "TOLLGATE_ALLOW_TEST_FEATURES",
    "TOLLGATE_API_KEY",
    "TOLLGATE_API_KEY_FILE",
    "TOLLGATE_CA_FILE",
    "TOLLGATE_URL",
];

/// The settings of the environment, and what is wrong with them.
#[derive(Default)]
pub(crate) struct EnvLayer {
    pub(crate) layer: Layer,
    pub(crate) problems: Vec<Problem>,
    /// Warnings about unknown variables. No problems: an orchestrator adds variables for a service
    /// named tollgate.
    pub(crate) unknown: Vec<String>,
}

/// Reads variables. Empty ones count as not set.
pub(crate) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> EnvLayer {
    let ours = variables.filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("TOLLGATE_"))?;
        // Keys that references name (`env:TOLLGATE_KEY_…`) are no settings.
        let is_other = OTHERS.contains(&name.as_str()) || name.starts_with(KEY_VARIABLE_PREFIX);
        (!value.is_empty() && !is_other).then_some((name, value))
    });
    let mut ours: Vec<(String, OsString)> = ours.collect();
    ours.sort();
    let mut read = EnvLayer::default();
    for (name, value) in ours {
        let Some(key) = KEYS.iter().find(|key| key.variables.contains(&name)) else {
            read.unknown.push(format!("{name} is not known{}", suggestion(&name)));
            continue;
        };
        let source = Source::Variable(name);
        match value.into_string() {
            Ok(text) => read.add(key, &text, source),
            Err(_) => read.problems.push(Problem::new(source, key.path, "is not UTF-8")),
        }
    }
    read
}

impl EnvLayer {
    fn add(&mut self, key: &'static Key, text: &str, source: Source) {
        let value = match SourcedValue::from_variable(key, text, source) {
            Ok(value) => value,
            Err(problem) => return self.problems.push(problem),
        };
        match self.layer.get(key.path) {
            Some(other) if plain_text(other) != plain_text(&value) => {
                let reason = format!("differs from {}: set one of them", other.source);
                self.problems.push(Problem::new(value.source, key.path, reason));
            }
            Some(_) => {}
            None => {
                self.layer.insert(key.path, value);
            }
        }
    }
}

fn suggestion(name: &str) -> String {
    let known = KEYS.iter().flat_map(|key| &key.variables);
    let near = known.map(|known| (strsim::damerau_levenshtein(known, name), known)).min();
    match near {
        Some((0..=2, known)) => format!("; did you mean {known}?"),
        _ => String::new(),
    }
}
