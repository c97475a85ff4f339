//! What `tollgate config check` says.

use std::fmt::Write;

use serde_json::{Value, json};
use tollgate_model::secret::masked;

use super::given::{Given, Place, Problem};
use super::keys::{KEYS, Preset};
use super::{Loaded, Refused, show};

/// A setting as it is in force.
struct Line {
    key: &'static str,
    value: Option<String>,
    layer: &'static str,
    place: String,
}

fn lines(loaded: &Loaded) -> Vec<Line> {
    let line = |key: &'static super::keys::Key| {
        let given: Option<&Given> = loaded.values.given.get(key.name);
        let found = match key.preset {
            Preset::Found(words) => Some(format!("({})", words.replace('`', ""))),
            Preset::Value(_) | Preset::None => None,
        };
        Line {
            key: key.name,
            value: given.map(|given| masked(&show::masked(key, given))).or(found),
            layer: given.map_or("default", |given| given.place.layer()),
            place: given.map_or_else(|| "default".to_owned(), |given| given.place.to_string()),
        }
    };
    KEYS.iter().map(line).collect()
}

/// A table for people: each setting, its value, where that is from.
pub(crate) fn report(loaded: &Loaded) -> String {
    let lines = lines(loaded);
    let value = |line: &Line| line.value.clone().unwrap_or_else(|| "-".to_owned());
    let width = |of: &dyn Fn(&Line) -> usize| lines.iter().map(of).max().unwrap_or_default();
    let names = width(&|line| line.key.len());
    let values = width(&|line| value(line).chars().count()).min(60);
    let mut page = format!("{:names$}  {:values$}  FROM\n", "KEY", "VALUE");
    for line in &lines {
        let _ = writeln!(page, "{:names$}  {:values$}  {}", line.key, value(line), line.place);
    }
    for warning in loaded.warnings() {
        let _ = writeln!(page, "warning: {}", masked(warning));
    }
    page
}

/// The same for machines, or what is wrong.
pub(crate) fn report_json(outcome: &Result<Loaded, Refused>) -> Value {
    match outcome {
        Ok(loaded) => {
            let line = |line: Line| {
                let Line { key, value, layer, place } = line;
                json!({"key": key, "value": value, "source": layer, "place": place})
            };
            let values: Vec<Value> = lines(loaded).into_iter().map(line).collect();
            json!({"ok": true, "values": values, "warnings": all_masked(loaded.warnings())})
        }
        Err(refused) => {
            let problem = |problem: &Problem| {
                let place = (problem.place != Place::Default).then(|| problem.place.to_string());
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
