//! Puts the layers on top of each other: flags over variables over the file over the defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::flags::Flags;
use super::given::{Given, Place, Problem, Value};
use super::keys::{KEYS, Key, Preset, find};
use super::{env, file};

/// The longest file that a secret is read from, in bytes (I13).
const SECRET_BYTES_MAX: u64 = 64 * 1024;

/// The value of every setting that has one, and where it is from.
#[derive(Clone, Default)]
pub(crate) struct Values {
    pub(crate) given: BTreeMap<&'static str, Given>,
    /// What should be known, but is no reason not to start.
    pub(crate) warnings: Vec<String>,
}

/// Gathers everything that was said. What is wrong with it stands beside it.
pub(crate) fn gather(
    flags: Flags,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (Values, Vec<Problem>) {
    let variables: Vec<(OsString, OsString)> = variables.collect();
    let from_variable = || {
        let config = variables.iter().find(|(name, _)| name.to_str() == Some(env::CONFIG));
        let path = config.filter(|(_, value)| !value.is_empty())?.1.clone();
        Some((PathBuf::from(path), Place::Variable(env::CONFIG.to_owned())))
    };
    let named = flags.config.map(|path| (path, Place::Flag("config"))).or_else(from_variable);
    let file = named.map(|(path, place)| file::read(&path, &place)).unwrap_or_default();
    let env = env::read(variables.into_iter());
    let mut values = Values { given: BTreeMap::new(), warnings: env.unknown };
    let mut problems = file.problems;
    problems.extend(env.problems);
    for layer in [file.given, env.given, flags.given] {
        values.given.extend(layer);
    }
    open_files(&mut values.given, &mut problems);
    for key in KEYS.iter() {
        if let Preset::Value(value) = key.preset {
            let preset = || Given::text(value, Place::Default);
            values.given.entry(key.name).or_insert_with(preset);
        }
    }
    (values, problems)
}

/// Puts the content of `…_file` in the place of what it stands for.
fn open_files(given: &mut BTreeMap<&'static str, Given>, problems: &mut Vec<Problem>) {
    for (key, target) in KEYS.iter().filter_map(|key| Some((key, find(key.holds?)?))) {
        let Some(path) = given.get(key.name).cloned() else { continue };
        if let Some(direct) = given.get(target.name) {
            if direct.place.layer() == path.place.layer() {
                let reason = format!("{} is given too, at {}", target.name, direct.place);
                problems.push(Problem::new(path.place, key.name, reason));
                continue;
            }
            if direct.place > path.place {
                given.remove(key.name);
                continue;
            }
        }
        match content(key, target, &path) {
            Ok(content) => {
                given.insert(target.name, content);
            }
            Err(problem) => problems.push(problem),
        }
    }
}

fn content(key: &Key, target: &Key, path: &Given) -> Result<Given, Problem> {
    let wrong = |reason: String| Problem::new(path.place.clone(), key.name, reason);
    let Value::Text(file) = &path.value else {
        return Err(wrong("must be a path, in quotes".to_owned()));
    };
    let text = secret_in(Path::new(file)).map_err(|reason| wrong(format!("{file}: {reason}")))?;
    let place = path.place.clone();
    if !target.kind.is_list() {
        return Ok(Given::text(text.trim_end_matches(['\r', '\n']), place));
    }
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let items = lines.map(|line| Given::text(line, place.clone())).collect();
    Ok(Given { value: Value::List(items), place })
}

/// What a file holds that a secret is in.
fn secret_in(path: &Path) -> Result<Zeroizing<String>, String> {
    let about = std::fs::metadata(path).map_err(|error| super::io_words(&error))?;
    if about.len() > SECRET_BYTES_MAX {
        return Err(format!("longer than {SECRET_BYTES_MAX} bytes"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| super::io_words(&error))?;
    let text = Zeroizing::new(text);
    if text.trim().is_empty() { Err("is empty".to_owned()) } else { Ok(text) }
}
