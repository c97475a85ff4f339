//! The configuration: flags over variables over a TOML file over defaults.
//!
//! One table (`keys`) says what there is; everything that is said is kept with its place until it
//! is understood, so that whatever is wrong is told with its place, and all of it at once. Never
//! shows a secret.

mod document;
mod endpoints;
mod env;
mod file;
mod flags;
mod given;
mod governance;
mod http;
mod keys;
mod kind;
mod layers;
mod permissions;
mod reader;
mod report;
mod rules;
mod settings;
mod show;
#[cfg(test)]
mod tests;

use std::fmt;

use tollgate_model::secret::masked;

pub(crate) use document::example;
pub(crate) use flags::{DatabaseFlags, Flags, NodeFlags};
pub(crate) use given::{Place, Problem};
pub(crate) use governance::PolicySettings;
pub(crate) use http::HttpSettings;
pub(crate) use kind::{duration, url_place};
pub(crate) use report::{report, report_json};
pub(crate) use settings::{KeySources, LogFormat, Settings, own_url};
pub(crate) use show::database as masked_database;

use layers::{Values, gather};

/// What the settings are for: not every command needs all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A node that serves: a chain and keys must be named.
    Serve,
    /// A node for development: what is not named is made up.
    Dev,
    /// The database alone.
    Database,
}

/// What was said, understood.
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    values: Values,
}

impl Loaded {
    /// What should be known, but is no reason not to start.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.values.warnings
    }
}

/// Everything that is wrong; one line for each.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<String>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        f.write_str(&masked(&lines.join("\n")))
    }
}

impl std::error::Error for Refused {}

impl From<Vec<Problem>> for Refused {
    fn from(problems: Vec<Problem>) -> Self {
        Self { problems, warnings: Vec::new() }
    }
}

/// Reads flags, environment and file.
pub(crate) fn load(flags: Flags, purpose: Purpose) -> Result<Loaded, Refused> {
    load_from(flags, std::env::vars_os(), purpose)
}

fn load_from(
    flags: Flags,
    variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
    purpose: Purpose,
) -> Result<Loaded, Refused> {
    let (mut values, mut problems) = gather(flags, variables);
    let settings = settings::understand(&mut values, purpose, &mut problems);
    match settings {
        Some(settings) if problems.is_empty() => {
            let open = permissions::warnings(&values, &settings);
            values.warnings.extend(open);
            Ok(Loaded { settings, values })
        }
        _ => {
            problems.sort();
            problems.dedup();
            Err(Refused { problems, warnings: values.warnings })
        }
    }
}

/// What the system says, without its number.
pub(crate) fn io_words(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        std::io::ErrorKind::PermissionDenied => "may not be read or written".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        std::io::ErrorKind::NotADirectory => "is a file, not a folder".to_owned(),
        std::io::ErrorKind::InvalidData => "is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
