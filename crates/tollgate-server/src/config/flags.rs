//! The command line: a flag for each setting that names one, straight from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::{Given, Place, Value};
use super::keys::{KEYS, Key, Preset};
use super::kind::Kind;

/// The flags of a command that runs on the configuration.
#[derive(Default)]
pub(crate) struct Flags {
    /// The file.
    pub(crate) config: Option<PathBuf>,
    pub(crate) given: BTreeMap<&'static str, Given>,
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        augment(command, |_| true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flags that name the database, for commands that need nothing else.
#[derive(Default)]
pub(crate) struct DatabaseFlags(pub(crate) Flags);

impl Args for DatabaseFlags {
    fn augment_args(command: Command) -> Command {
        augment(command, |key| key.section() == "database")
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DatabaseFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Flags::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }
}

fn flagged() -> impl Iterator<Item = (&'static str, &'static Key)> {
    KEYS.iter().filter_map(|key| Some((key.flag?, key)))
}

fn augment(command: Command, wanted: fn(&Key) -> bool) -> Command {
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(PathBufValueParser::new())
        .help("A configuration file; flags and variables win over it [env: TOLLGATE_CONFIG]");
    let wanted = flagged().filter(|(_, key)| wanted(key));
    command.arg(config).args(wanted.map(|(flag, key)| argument(flag, key)))
}

fn argument(flag: &'static str, key: &Key) -> Arg {
    let variables = key.variables();
    let variable = variables.get(1).or(variables.first()).cloned().unwrap_or_default();
    let preset = match key.preset {
        Preset::Value(value) if key.kind != Kind::Switch => format!(" [default: {value}]"),
        _ => String::new(),
    };
    let about = key.about.replace('`', "");
    let argument = Arg::new(flag).long(flag).help(format!("{about} [env: {variable}]{preset}"));
    match key.kind {
        Kind::Switch => argument.action(ArgAction::SetTrue),
        kind if kind.is_list() => argument.action(ArgAction::Append).value_name(value_name(kind)),
        kind => argument.action(ArgAction::Set).value_name(value_name(kind)),
    }
}

const fn value_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Socket => "IP:PORT",
        Kind::HttpUrl | Kind::HookUrl | Kind::DatabaseUrl | Kind::Endpoints => "URL",
        Kind::Duration(_) => "DURATION",
        Kind::Number(..) => "N",
        Kind::Path | Kind::Paths => "PATH",
        Kind::Choice(_) => "WORD",
        Kind::Finality => "RULE",
        _ => "TEXT",
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        if let Some(file) = matches.get_one::<PathBuf>("config") {
            self.config = Some(file.clone());
        }
        // A command may have only some of them.
        let known = flagged().filter(|(flag, _)| matches.try_contains_id(flag).is_ok());
        for (flag, key) in known {
            let place = Place::Flag(flag);
            if key.kind == Kind::Switch {
                if matches.get_flag(flag) {
                    self.given.insert(key.name, Given::text("true", place));
                }
                continue;
            }
            let texts: Vec<&String> =
                matches.get_many(flag).map(Iterator::collect).unwrap_or_default();
            // Each occurrence is one value: paths may have commas.
            let given = match texts.as_slice() {
                [] => continue,
                [text] if !key.kind.is_list() => Given::text(text.trim(), place),
                texts => {
                    let items = texts.iter().map(|text| Given::text(text.trim(), place.clone()));
                    Given { value: Value::List(items.collect()), place }
                }
            };
            self.given.insert(key.name, given);
        }
        Ok(())
    }
}
