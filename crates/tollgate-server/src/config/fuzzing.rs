//! The fuzz target of settings (`docs/fuzzing.md`).

#![cfg_attr(
    not(feature = "fuzzing"),
    allow(unreachable_pub, reason = "the feature makes it public")
)]

use super::file::parse;
use super::load::Values;
use super::value::SourcedValue;
use super::{Purpose, Settings, Source, constraints, keys::KEYS};

/// Reads text as a configuration file: values, settings, and the rules between them. Files that it names
/// are not opened. The first byte chooses the command that the settings are for.
///
/// # Panics
/// If a parser or a rule does.
pub fn settings(data: &[u8]) {
    let [choice, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let purpose = match choice % 3 {
        0 => Purpose::Serve,
        1 => Purpose::Dev,
        _ => Purpose::Database,
    };
    let file = parse("t.toml", text);
    let mut problems = file.problems;
    let mut layer = file.layer;
    for key in KEYS.iter() {
        if let Some(text) = key.field.default {
            layer.entry(key.path).or_insert_with(|| SourcedValue::text(text, Source::Default));
        }
    }
    let mut values = Values::from(layer);
    if let Some(mut settings) = Settings::read(&values, &mut problems) {
        constraints::apply(&mut settings, &mut values, purpose, &mut problems);
        for key in KEYS.iter() {
            let shown = values.get(key.path).map(|value| (key, value));
            shown.map(|(key, value)| super::redact::redacted(&key.field.value_type, value));
        }
    }
    let refused = super::Refused::from(problems);
    let _ = refused.to_string();
    let _ = super::report_json(&Err(refused));
}

#[cfg(test)]
mod tests {
    #[test]
    fn settings_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("settings", super::settings);
    }
}
