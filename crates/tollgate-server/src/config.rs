//! The configuration: flags over variables over a TOML file over defaults.
//!
//! `settings` declares every setting once. Values keep their source until they are parsed, so that
//! each problem is reported with its place, and all problems at once. Never shows a secret.

mod check;
mod configured_chains;
mod constraints;
mod env;
mod example;
mod field;
mod file;
mod files;
mod flags;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod keys;
mod load;
mod options;
mod parse;
mod redact;
mod settings;
mod table;
#[cfg(test)]
mod tests;
mod types;
mod value;
mod value_type;

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;

use tollgate_model::secret::masked;

pub(crate) use check::{report, report_json};
pub(crate) use configured_chains::ConfiguredChain;
pub(crate) use example::example;
pub(crate) use flags::{DatabaseFlags, Flags, NodeFlags};
pub(crate) use parse::{duration, url_place};
pub(crate) use redact::database_url as redacted_database_url;
pub(crate) use settings::{
    AlertSettings, DatabaseSettings, EventSettings, KeySettings, NatsSettings, RetentionSettings,
    Settings, TopUpEntry, TraceSettings, WebhookSettings,
};
pub(crate) use types::{Age, DatabaseUrl, EventMode, LogFormat, NodeName, RetentionMode};
#[cfg(test)]
pub(crate) use types::{HookUrl, Permille};
pub(crate) use value::{Problem, Source, Sourced};

use load::{Values, gather};

/// The purpose of the settings. Not every command needs all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A node that serves: a chain and keys are required.
    Serve,
    /// A node for development: a missing chain and missing keys are made up.
    Dev,
    /// A command that uses the database only.
    Database,
}

/// Settings that can be used, with the source of each value.
pub(crate) struct Loaded {
    pub(crate) settings: Settings,
    values: Values,
}

impl Loaded {
    /// Remarks that do not prevent a start.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.values.warnings
    }

    /// A setting comes from a file, a variable or a flag.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        self.values.is_given(name)
    }
}

/// All problems of a configuration; one line for each.
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

/// The defaults, whatever the environment holds.
pub(crate) fn defaults() -> Result<Settings, Refused> {
    let nothing = std::iter::empty();
    load_from(Flags::default(), nothing, Purpose::Dev).map(|loaded| loaded.settings)
}

fn load_from(
    flags: Flags,
    variables: impl Iterator<Item = (OsString, OsString)>,
    purpose: Purpose,
) -> Result<Loaded, Refused> {
    let (mut values, mut problems) = gather(flags, variables);
    let mut settings = Settings::read(&values, &mut problems);
    if let Some(settings) = &mut settings {
        constraints::apply(settings, &mut values, purpose, &mut problems);
        if purpose != Purpose::Database {
            problems.extend(files::unreadable(settings));
        }
    }
    match settings {
        Some(settings) if problems.is_empty() => {
            let warnings = files::permission_warnings(&values, &settings);
            values.warnings.extend(warnings);
            Ok(Loaded { settings, values })
        }
        _ => {
            problems.sort();
            problems.dedup();
            Err(Refused { problems, warnings: values.warnings })
        }
    }
}

/// The URL of a node that listens on an address, as far as the node itself can know.
pub(crate) fn own_url(address: SocketAddr, node_name: &str, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    match address.ip().is_unspecified() {
        true => format!("{scheme}://{node_name}:{}", address.port()),
        false => format!("{scheme}://{address}"),
    }
}
