//! The environment: `TOLLGATE_…`.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::given::{Given, Place, Problem};
use super::keys::{KEYS, Key};

/// The variable that names the file.
pub(crate) const CONFIG: &str = "TOLLGATE_CONFIG";

/// Variables of other commands: no settings, and no slips.
const OTHERS: [&str; 5] = [
    CONFIG,
    "TOLLGATE_ALLOW_TEST_FEATURES",
    "TOLLGATE_API_KEY",
    "TOLLGATE_CA_FILE",
    "TOLLGATE_URL",
];

/// What the environment says.
#[derive(Default)]
pub(crate) struct Read {
    pub(crate) given: BTreeMap<&'static str, Given>,
    pub(crate) problems: Vec<Problem>,
    /// Variables that look as if they were meant for us, but are not known: slips, or what an
    /// orchestrator adds for a service of that name.
    pub(crate) unknown: Vec<String>,
}

/// Reads variables. Empty ones count as not set.
pub(crate) fn read(variables: impl Iterator<Item = (OsString, OsString)>) -> Read {
    let ours = variables.filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("TOLLGATE_"))?;
        (!value.is_empty() && !OTHERS.contains(&name.as_str())).then_some((name, value))
    });
    let mut ours: Vec<(String, OsString)> = ours.collect();
    ours.sort();
    let mut read = Read::default();
    for (name, value) in ours {
        let Some(key) = KEYS.iter().find(|key| key.variables().contains(&name)) else {
            read.unknown.push(format!("{name} is not known{}", advice(&name)));
            continue;
        };
        let place = Place::Variable(name);
        match value.into_string() {
            Ok(text) => read.take(key, &text, place),
            Err(_) => read.problems.push(Problem::new(place, key.name, "is not UTF-8")),
        }
    }
    read
}

impl Read {
    fn take(&mut self, key: &'static Key, text: &str, place: Place) {
        let given = match Given::from_outside(key, text, place) {
            Ok(given) => given,
            Err(problem) => return self.problems.push(problem),
        };
        match self.given.get(key.name) {
            Some(other) if super::show::plainly(other) != super::show::plainly(&given) => {
                let reason = format!("says something else than {}: set one of them", other.place);
                self.problems.push(Problem::new(given.place, key.name, reason));
            }
            Some(_) => {}
            None => {
                self.given.insert(key.name, given);
            }
        }
    }
}

fn advice(name: &str) -> String {
    let known = KEYS.iter().flat_map(Key::variables);
    let near = known.map(|known| (strsim::damerau_levenshtein(&known, name), known)).min();
    match near {
        Some((0..=2, known)) => format!("; did you mean {known}?"),
        _ => String::new(),
    }
}
