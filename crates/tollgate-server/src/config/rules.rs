//! `[[stuck.rules]]`: each line with its place, so that a bad one can be found.

use tollgate_model::stuck::rules::{RuleSpec, StuckRules};

use super::given::{Entry, Given, Place, Problem, Value};
use super::reader::Reader;

const RULES: &str = "stuck.rules";

/// What a rule's table may hold.
const FIELDS: [&str; 8] = [
    "trigger",
    "reason",
    "last_answer",
    "diagnosis",
    "age_at_least_seconds",
    "depth_at_least",
    "attempts_at_least",
    "action",
];

/// The rules, if all of them can be used.
pub(super) fn rules(reader: &mut Reader<'_>) -> Option<StuckRules> {
    let (mut specs, mut sound) = (Vec::new(), true);
    let items = reader.list(RULES);
    for (index, item) in items.iter().enumerate() {
        match spec(item).and_then(|spec| usable(index, item, spec)) {
            Ok(spec) => specs.push(spec),
            Err(problems) => {
                reader.problems.extend(problems);
                sound = false;
            }
        }
    }
    match StuckRules::parse(&specs) {
        Ok(rules) => sound.then_some(rules),
        Err(bad) => {
            reader.wrong(RULES, bad.problem);
            None
        }
    }
}

/// The model has its own opinion on what a rule may say.
fn usable(index: usize, item: &Given, spec: RuleSpec) -> Result<RuleSpec, Vec<Problem>> {
    match StuckRules::parse(std::slice::from_ref(&spec)) {
        Ok(_) => Ok(spec),
        Err(bad) => {
            let place = match &item.value {
                Value::Table(entries) => entries.iter().find(|entry| entry.name == bad.field),
                _ => None,
            };
            let place = place.map_or(&item.place, |entry| &entry.given.place);
            let reason = format!("rule {}: {}: {}", index + 1, bad.field, bad.problem);
            Err(vec![Problem::new(place.clone(), RULES, reason)])
        }
    }
}

fn spec(item: &Given) -> Result<RuleSpec, Vec<Problem>> {
    let wrong = |place: &Place, reason: String| Problem::new(place.clone(), RULES, reason);
    let Value::Table(entries) = &item.value else {
        let reason = "a rule is a table like { reason = \"expired\", action = \"cancel\" }";
        return Err(vec![wrong(&item.place, reason.to_owned())]);
    };
    let (mut spec, mut problems) = (RuleSpec::default(), Vec::new());
    for entry in entries {
        if let Err((place, reason)) = set(&mut spec, entry) {
            problems.push(wrong(place, format!("{} {reason}", entry.name)));
        }
    }
    if !entries.iter().any(|entry| entry.name == "action") {
        problems.push(wrong(&item.place, "a rule needs an action".to_owned()));
    }
    if problems.is_empty() { Ok(spec) } else { Err(problems) }
}

fn set<'a>(spec: &mut RuleSpec, entry: &'a Entry) -> Result<(), (&'a Place, String)> {
    let Entry { name, at, given } = entry;
    let here = |reason: &str| (&given.place, reason.to_owned());
    let word = || match &given.value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err(here("must be a word, in quotes")),
    };
    let number = || match &given.value {
        Value::Bare(text) => {
            text.replace('_', "").parse().map_err(|_| here("must be a whole number"))
        }
        _ => Err(here("must be a whole number")),
    };
    match name.as_str() {
        "trigger" => spec.trigger = Some(word()?),
        "reason" => spec.reason = Some(word()?),
        "last_answer" => spec.last_answer = Some(word()?),
        "diagnosis" => spec.diagnosis = Some(word()?),
        "age_at_least_seconds" => spec.age_at_least_seconds = Some(number()?),
        "depth_at_least" => spec.depth_at_least = Some(number()?),
        "attempts_at_least" => {
            let count = u16::try_from(number()?).map_err(|_| here("must be at most 65535"))?;
            spec.attempts_at_least = Some(count);
        }
        "action" => spec.action = word()?,
        _ => return Err((at, format!("is unknown; a rule has {}", FIELDS.join(", ")))),
    }
    Ok(())
}
