//! How values are shown: secrets never.

use super::given::{Given, Value};
use super::keys::Key;
use super::kind::{Kind, url_place};

/// What stands for what is not shown.
const HIDDEN: &str = "***";

/// All of a value, to compare it with another. Never printed.
pub(crate) fn plainly(given: &Given) -> String {
    match &given.value {
        Value::Text(text) | Value::Bare(text) | Value::Fraction(text) => text.clone(),
        Value::List(items) => items.iter().map(plainly).collect::<Vec<_>>().join(", "),
        Value::Table(entries) => {
            let entry =
                |entry: &super::given::Entry| format!("{} = {}", entry.name, plainly(&entry.given));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Other(word) => (*word).to_owned(),
    }
}

/// A value for people.
pub(crate) fn masked(key: &Key, given: &Given) -> String {
    match (key.kind, &given.value) {
        (Kind::Secret, _) => HIDDEN.to_owned(),
        (Kind::Secrets, Value::List(items)) => vec![HIDDEN; items.len()].join(", "),
        (Kind::Secrets, _) => HIDDEN.to_owned(),
        (Kind::DatabaseUrl, Value::Text(url)) => database(url),
        (Kind::DatabaseUrl, _) => HIDDEN.to_owned(),
        (Kind::Endpoints, Value::List(items)) => {
            items.iter().map(endpoint).collect::<Vec<_>>().join(", ")
        }
        // A hook's path may be a key, too.
        (Kind::Endpoints | Kind::HookUrl, _) => endpoint(given),
        _ => plainly(given),
    }
}

/// A database's URL without user, password and parameters.
pub(crate) fn database(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let file = url.starts_with("sqlite:").then(|| tollgate_model::secret::masked(url));
        return file.unwrap_or_else(|| HIDDEN.to_owned());
    };
    // A password may hold an unescaped / or ?: nothing before the last @ is shown.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{user}{place}")
}

/// An endpoint's scheme, host and port: its path may be a key.
fn endpoint(given: &Given) -> String {
    let text = |given: &Given| match &given.value {
        Value::Text(url) => url_place(url, &["http", "https", "ws", "wss"]).ok().map(|place| {
            let bare = url.trim().trim_end_matches('/') == place;
            if bare { place } else { format!("{place}/{HIDDEN}") }
        }),
        _ => None,
    };
    match &given.value {
        Value::Table(entries) => {
            let entries = entries.iter().map(|entry| match entry.name.as_str() {
                "url" => text(&entry.given).unwrap_or_else(|| HIDDEN.to_owned()),
                name => format!("{name} = {}", plainly(&entry.given)),
            });
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        _ => text(given).unwrap_or_else(|| HIDDEN.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_database_only_the_place_is_shown() {
        for (url, shown) in [
            (
                "postgres://me:p@ss/w?rd@db:5432/tollgate?password=x",
                "postgres://***@db:5432/tollgate",
            ),
            ("postgresql://db/tollgate", "postgresql://db/tollgate"),
            ("sqlite:/var/lib/t.db", "sqlite:/var/lib/t.db"),
            ("nonsense:secret", "***"),
        ] {
            assert_eq!(database(url), shown);
        }
    }
}
