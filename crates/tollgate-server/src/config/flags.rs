//! The command line: a flag for each setting that names one, straight from the table.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::given::{Given, Place, Value};
use super::keys::{KEYS, Key, Preset};
use super::kind::Kind;

/// What was given on the command line.
#[derive(Default)]
pub(crate) struct Flags {
    /// The file.
    pub(crate) config: Option<PathBuf>,
    pub(crate) given: BTreeMap<&'static str, Given>,
}

/// Which settings a command takes as flags.
pub(crate) trait FlagScope {
    fn has(key: &Key) -> bool;
}

/// Every setting that names a flag.
pub(crate) struct AllSettings;

impl FlagScope for AllSettings {
    fn has(_: &Key) -> bool {
        true
    }
}

/// The database alone.
pub(crate) struct DatabaseSettings;

impl FlagScope for DatabaseSettings {
    fn has(key: &Key) -> bool {
        key.section() == "database"
    }
}

/// The flags of a command. One scope both makes the arguments and reads them: clap panics when a
/// command is asked for an argument that it does not have, and whether it has one can be asked in
/// builds with debug assertions only.
pub(crate) struct ScopedFlags<S> {
    flags: Flags,
    scope: PhantomData<S>,
}

/// The flags of a command that runs on the whole configuration.
pub(crate) type NodeFlags = ScopedFlags<AllSettings>;
/// The flags of a command that needs the database and nothing else.
pub(crate) type DatabaseFlags = ScopedFlags<DatabaseSettings>;

impl<S> ScopedFlags<S> {
    pub(crate) fn into_flags(self) -> Flags {
        self.flags
    }
}

fn flagged<S: FlagScope>() -> impl Iterator<Item = (&'static str, &'static Key)> {
    KEYS.iter().filter(|key| S::has(key)).filter_map(|key| Some((key.flag?, key)))
}

impl<S: FlagScope> Args for ScopedFlags<S> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(PathBufValueParser::new())
            .help("A configuration file; flags and variables win over it [env: TOLLGATE_CONFIG]");
        command.arg(config).args(flagged::<S>().map(|(flag, key)| argument(flag, key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
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

impl<S: FlagScope> FromArgMatches for ScopedFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self { flags: Flags::default(), scope: PhantomData };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        if let Some(file) = matches.get_one::<PathBuf>("config") {
            self.flags.config = Some(file.clone());
        }
        for (flag, key) in flagged::<S>() {
            if let Some(given) = read(matches, flag, key) {
                self.flags.given.insert(key.name, given);
            }
        }
        Ok(())
    }
}

fn read(matches: &ArgMatches, flag: &'static str, key: &Key) -> Option<Given> {
    let place = Place::Flag(flag);
    if key.kind == Kind::Switch {
        return matches.get_flag(flag).then(|| Given::text("true", place));
    }
    let texts: Vec<&String> = matches.get_many(flag).map(Iterator::collect).unwrap_or_default();
    // Each occurrence is one value: paths may have commas.
    match texts.as_slice() {
        [] => None,
        [text] if !key.kind.is_list() => Some(Given::text(text.trim(), place)),
        texts => {
            let items = texts.iter().map(|text| Given::text(text.trim(), place.clone()));
            Some(Given { value: Value::List(items.collect()), place })
        }
    }
}
