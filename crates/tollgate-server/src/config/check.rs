//! The report of `tollgate config check`.

use std::fmt::Write;

use serde_json::{Value, json};
use tollgate_model::secret::masked;

use super::keys::{KEYS, Key};
use super::redact::redacted;
use super::value::{Problem, Source};
use super::{Loaded, Refused};

/// A setting and its effective value.
struct Line {
    key: &'static str,
    value: Option<String>,
    source: Source,
}

fn lines(loaded: &Loaded) -> Vec<Line> {
    let line = |key: &'static Key| {
        let value = loaded.values.get(key.path);
        let derived = key.field.derived.replace('`', "");
        let derived = (!derived.is_empty()).then(|| format!("({derived})"));
        Line {
            key: key.path,
            value: value.map(|value| masked(&redacted(&key.field.value_type, value))).or(derived),
            source: loaded.values.source(key.path),
        }
    };
    KEYS.iter().map(line).collect()
}

/// The table for people: each setting, its value and the source of the value.
pub(crate) fn report(loaded: &Loaded) -> String {
    let lines = lines(loaded);
    let value = |line: &Line| line.value.clone().unwrap_or_else(|| "-".to_owned());
    let width = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or_default();
    let names = width(&|line| line.key.len());
    let values = width(&|line| value(line).chars().count()).min(60);
    let mut page = format!("{:names$}  {:values$}  FROM\n", "KEY", "VALUE");
    for line in &lines {
        let _ = writeln!(page, "{:names$}  {:values$}  {}", line.key, value(line), line.source);
    }
    for warning in loaded.warnings() {
        let _ = writeln!(page, "warning: {}", masked(warning));
    }
    page
}

/// The report as JSON: the settings, or all problems.
pub(crate) fn report_json(outcome: &Result<Loaded, Refused>) -> Value {
    match outcome {
        Ok(loaded) => {
            let line = |line: Line| {
                let (layer, place) = (line.source.layer(), line.source.to_string());
                json!({"key": line.key, "value": line.value, "source": layer, "place": place})
            };
            let values: Vec<Value> = lines(loaded).into_iter().map(line).collect();
            json!({"ok": true, "values": values, "warnings": all_masked(loaded.warnings())})
        }
        Err(refused) => {
            let problem = |problem: &Problem| {
                let place = (problem.source != Source::Default).then(|| problem.source.to_string());
                let (place, key) = (place.map(|place| masked(&place)), problem.key.as_deref());
                json!({"place": place, "key": key.map(masked), "reason": masked(&problem.reason)})
            };
            let problems: Vec<Value> = refused.problems.iter().map(problem).collect();
            json!({"ok": false, "problems": problems, "warnings": all_masked(&refused.warnings)})
        }
    }
}

fn all_masked(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| masked(line)).collect()
}
