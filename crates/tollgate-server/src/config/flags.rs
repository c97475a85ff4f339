//! Settings from the command line: a flag for each setting that has one.

use std::path::PathBuf;

use clap::builder::PathBufValueParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

use super::keys::{KEYS, Key};
use super::load::Layer;
use super::value::{Source, SourcedValue, Value};

/// The settings that the command line gives.
#[derive(Default)]
pub(crate) struct Flags {
    /// The configuration file.
    pub(crate) config: Option<PathBuf>,
    pub(crate) layer: Layer,
}

/// The flags of a command. One type both declares the arguments and reads them: clap panics if an
/// argument is read that the command does not declare.
pub(crate) struct CommandFlags<const DATABASE_ONLY: bool>(Flags);

/// The flags of a command that uses the whole configuration.
pub(crate) type NodeFlags = CommandFlags<false>;
/// The flags of a command that uses the database only.
pub(crate) type DatabaseFlags = CommandFlags<true>;

impl<const DATABASE_ONLY: bool> CommandFlags<DATABASE_ONLY> {
    pub(crate) fn into_flags(self) -> Flags {
        self.0
    }

    fn keys() -> impl Iterator<Item = (&'static str, &'static Key)> {
        let keys = KEYS.iter().filter(|key| !DATABASE_ONLY || key.section == "database");
        keys.map(|key| (key.field.flag, key)).filter(|(flag, _)| !flag.is_empty())
    }
}

impl<const DATABASE_ONLY: bool> Args for CommandFlags<DATABASE_ONLY> {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(PathBufValueParser::new())
            .help("Configuration file; flags and variables take precedence [env: TOLLGATE_CONFIG]");
        command.arg(config).args(Self::keys().map(|(flag, key)| argument(flag, key)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(flag: &'static str, key: &Key) -> Arg {
    let variable = key.variables.get(1).or(key.variables.first()).cloned().unwrap_or_default();
    let is_switch = key.field.value_type.is_switch();
    let default = key.field.default.filter(|_| !is_switch);
    let default = default.map_or_else(String::new, |text| format!(" [default: {text}]"));
    let help = format!("{} [env: {variable}]{default}", without_markup(&key.doc()));
    let argument = Arg::new(flag).long(flag).help(help);
    let action = match (is_switch, key.field.value_type.is_list) {
        (true, _) => return argument.action(ArgAction::SetTrue),
        (false, true) => ArgAction::Append,
        (false, false) => ArgAction::Set,
    };
    argument.action(action).value_name(key.field.value_type.placeholder)
}

/// A text without Markdown: of a link only its words, of code only the code.
fn without_markup(text: &str) -> String {
    let (mut plain, mut rest) = (String::new(), text);
    while let Some((before, words, after)) = first_link(rest) {
        plain.push_str(before);
        plain.push_str(words);
        rest = after;
    }
    (plain + rest).replace('`', "")
}

/// The text before the first link, its words, and the text after it.
fn first_link(text: &str) -> Option<(&str, &str, &str)> {
    let (open, after) = text.split_once("](")?;
    let (before, words) = open.rsplit_once('[')?;
    Some((before, words, after.split_once(')')?.1))
}

impl<const DATABASE_ONLY: bool> FromArgMatches for CommandFlags<DATABASE_ONLY> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self(Flags::default());
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        if let Some(file) = matches.get_one::<PathBuf>("config") {
            self.0.config = Some(file.clone());
        }
        for (flag, key) in Self::keys() {
            if let Some(value) = read(matches, flag, key) {
                self.0.layer.insert(key.path, value);
            }
        }
        Ok(())
    }
}

fn read(matches: &ArgMatches, flag: &'static str, key: &Key) -> Option<SourcedValue> {
    let source = Source::Flag(flag);
    if key.field.value_type.is_switch() {
        return matches.get_flag(flag).then(|| SourcedValue::text("true", source));
    }
    let texts: Vec<&String> = matches.get_many(flag).map(Iterator::collect).unwrap_or_default();
    // Each occurrence is one entry of a list, and is not split: a path may contain commas.
    match texts.as_slice() {
        [] => None,
        [text] if !key.field.value_type.is_list => Some(SourcedValue::text(text.trim(), source)),
        texts => {
            let items = texts.iter().map(|text| SourcedValue::text(text.trim(), source.clone()));
            Some(SourcedValue { value: Value::List(items.collect()), source })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_shows_the_words_of_a_link() {
        let shown =
            without_markup("Certificates (`PEM`), see [TLS](operations/tls.md) and [a](b).");
        assert_eq!(shown, "Certificates (PEM), see TLS and a.");
        assert_eq!(without_markup("`[[a]](x`"), "[[a]](x");
    }
}
