//! Tests of the configuration as a whole.

mod array_tables;
mod documents;
mod layers;
mod permissions;
mod problems;
mod stuck;

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use clap::{Args, Command, FromArgMatches};

use super::*;

/// The input of a user: the text of a file, variables, flags.
#[derive(Default)]
struct Input<'a> {
    file: &'a str,
    variables: &'a [(&'a str, &'a str)],
    flags: &'a [&'a str],
}

impl Input<'_> {
    fn load(&self, purpose: Purpose) -> Result<Loaded, Refused> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tollgate.toml");
        std::fs::write(&file, self.file).unwrap();
        // Some files hold secrets; the warning that others can read them is tested elsewhere.
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let command = NodeFlags::augment_args(Command::new("test"));
        let words = std::iter::once("test").chain(self.flags.iter().copied());
        let matches = command.try_get_matches_from(words).unwrap();
        let mut flags = NodeFlags::from_arg_matches(&matches).unwrap().into_flags();
        flags.config = Some(file);
        load_from(flags, os_strings(self.variables), purpose)
    }

    fn loaded(&self) -> Loaded {
        self.load(Purpose::Dev).unwrap_or_else(|refused| panic!("{refused}"))
    }

    fn settings(&self) -> Settings {
        self.loaded().settings
    }

    /// All problems, each with the name of the file without its folder.
    fn problems(&self) -> Vec<String> {
        match self.load(Purpose::Dev) {
            Ok(_) => Vec::new(),
            Err(refused) => refused.problems.iter().map(without_folder).collect(),
        }
    }
}

fn os_strings(pairs: &[(&str, &str)]) -> impl Iterator<Item = (OsString, OsString)> {
    pairs.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)))
}

fn without_folder(problem: &Problem) -> String {
    let mut problem = problem.clone();
    if let Source::File { file, .. } = &mut problem.source {
        let name = Path::new(&**file).file_name().unwrap().to_string_lossy().into_owned();
        *file = name.into();
    }
    problem.to_string()
}

/// The value of a setting and its layer.
fn shown(loaded: &Loaded, name: &str) -> (String, &'static str) {
    let value = loaded.values.get(name).unwrap();
    (redact::plain_text(value), value.source.layer())
}

fn from_file(file: &str) -> Input<'_> {
    Input { file, ..Input::default() }
}

fn from_variables<'a>(variables: &'a [(&'a str, &'a str)]) -> Input<'a> {
    Input { variables, ..Input::default() }
}

fn from_flags<'a>(flags: &'a [&'a str]) -> Input<'a> {
    Input { flags, ..Input::default() }
}
