//! Shows values without their secrets.

use super::parse::url_place;
use super::value::{Entry, SourcedValue, Value};
use super::value_type::{Form, Redaction, ValueType};

/// Stands for a hidden part.
const HIDDEN: &str = "***";

/// The whole value, to compare it with another. Must not be printed.
pub(crate) fn plain_text(value: &SourcedValue) -> String {
    let entry = |entry: &Entry| format!("{} = {}", entry.name, plain_text(&entry.value));
    match &value.value {
        Value::Text(text) | Value::Bare(text) | Value::Decimal(text) => text.clone(),
        Value::List(items) => joined(items.iter().map(plain_text)),
        Value::Table(entries) => format!("{{ {} }}", joined(entries.iter().map(entry))),
        Value::Unsupported(words) => (*words).to_owned(),
    }
}

/// The value without its secrets.
pub(crate) fn redacted(value_type: &ValueType, value: &SourcedValue) -> String {
    match (&value.value, value_type.form) {
        (Value::List(items), _) => joined(items.iter().map(|item| redacted(value_type, item))),
        (Value::Table(entries), Form::Table(fields)) => {
            let entries = entries.iter().map(|entry| {
                let field = fields.iter().find(|field| field.name == entry.name);
                let shown = field.map(|field| redacted(&field.value_type, &entry.value));
                format!("{} = {}", entry.name, shown.as_deref().unwrap_or(HIDDEN))
            });
            format!("{{ {} }}", joined(entries))
        }
        // A text in the place of a table is the value of its first field.
        (_, Form::Table([first, ..])) => redacted(&first.value_type, value),
        (Value::Text(text), _) => match value_type.redaction {
            Redaction::ShowAll => text.clone(),
            Redaction::HideAll => HIDDEN.to_owned(),
            Redaction::DatabaseUrl => database_url(text),
            Redaction::UrlPath => endpoint_url(text),
        },
        _ if value_type.is_secret() => HIDDEN.to_owned(),
        _ => plain_text(value),
    }
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}

/// A database's URL without user, password and parameters.
pub(crate) fn database_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        let file = url.starts_with("sqlite:").then(|| tollgate_model::secret::masked(url));
        return file.unwrap_or_else(|| HIDDEN.to_owned());
    };
    // A password may contain an unescaped / or ?: nothing before the last @ is shown.
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", rest),
    };
    let place = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{user}{place}")
}

/// The scheme, host and port of a URL whose path may be a key.
fn endpoint_url(url: &str) -> String {
    match url_place(url, &["http", "https", "ws", "wss"]) {
        Ok(place) if url.trim().trim_end_matches('/') == place => place,
        Ok(place) => format!("{place}/{HIDDEN}"),
        Err(_) => HIDDEN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_url_is_shown_without_user_password_and_parameters() {
        for (url, shown) in [
            (
                "postgres://me:p@ss/w?rd@db:5432/tollgate?password=x",
                "postgres://***@db:5432/tollgate",
            ),
            ("postgresql://db/tollgate", "postgresql://db/tollgate"),
            ("sqlite:/var/lib/t.db", "sqlite:/var/lib/t.db"),
            ("nonsense:secret", "***"),
        ] {
            assert_eq!(database_url(url), shown);
        }
    }
}
