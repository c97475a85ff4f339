//! Endpoints and what their nodes mean: the settings that are tables.

use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_evm::{Override, Overrides};
use tollgate_model::answer::AnswerClass;

use super::given::{Entry, Given, Place, Problem, Value};
use super::kind::{duration, number, url_place};
use super::reader::Reader;

/// What an endpoint's table may hold: name, kind, default, meaning.
pub(super) const FIELDS: [(&str, &str, &str, &str); 6] = [
    ("url", "`http(s)://…` or `ws(s)://…`", "", "Where it is. May hold user, password and a key."),
    (
        "role",
        "`full`, `send_only` or `read_only`",
        "full",
        "What it is used for: a relay only takes transactions, an archive only answers questions.",
    ),
    ("timeout", "duration", "5s", "How long one call may take, with the wait for a free place."),
    ("connect_timeout", "duration", "3s", "How long a connection may take to come about."),
    ("concurrency", "number, 1 to 10000", "32", "Calls in flight at once."),
    (
        "response_bytes_max",
        "number, 1024 to 1073741824",
        "67108864",
        "The longest answer that is read.",
    ),
];

const URLS: &str = "chain.rpc_urls";
const ANSWERS: &str = "chain.answers";
const SCHEMES: [&str; 4] = ["http", "https", "ws", "wss"];
/// Endpoints of one chain (I13).
const ENDPOINTS_MAX: usize = 64;

/// The endpoints, as far as they can be understood.
pub(super) fn endpoints(reader: &mut Reader<'_>) -> Vec<EndpointConfig> {
    let items = reader.list(URLS);
    if items.len() > ENDPOINTS_MAX {
        reader.wrong(URLS, format!("{} endpoints are more than {ENDPOINTS_MAX}", items.len()));
        return Vec::new();
    }
    let (count, mut endpoints) = (items.len(), Vec::with_capacity(items.len()));
    for item in &items {
        match endpoint(item) {
            Ok(endpoint) => endpoints.push(endpoint),
            Err(problems) => reader.problems.extend(problems),
        }
    }
    if count > 0 && endpoints.len() == count {
        if endpoints.iter().all(|endpoint| endpoint.role == Role::SendOnly) {
            reader.wrong(URLS, "every endpoint is send_only: the chain could not be read");
        }
        if endpoints.iter().all(|endpoint| endpoint.role == Role::ReadOnly) {
            reader.wrong(URLS, "every endpoint is read_only: nothing could be sent");
        }
    }
    endpoints
}

fn endpoint(item: &Given) -> Result<EndpointConfig, Vec<Problem>> {
    let wrong = |place: &Place, reason: String| Problem::new(place.clone(), URLS, reason);
    let entries = match &item.value {
        Value::Text(url) => {
            // Nothing of it is quoted: it may hold a provider's key.
            url_place(url, &SCHEMES).map_err(|reason| vec![wrong(&item.place, reason)])?;
            return Ok(EndpointConfig::new(url.trim()));
        }
        Value::Table(entries) => entries,
        Value::List(_) | Value::Bare(_) | Value::Fraction(_) | Value::Other(_) => {
            let reason =
                "an endpoint is a URL or a table like { url = \"https://…\", role = \"full\" }";
            return Err(vec![wrong(&item.place, reason.to_owned())]);
        }
    };
    let (mut config, mut problems) = (EndpointConfig::new(""), Vec::new());
    for entry in entries {
        if let Err((place, reason)) = set(&mut config, entry) {
            problems.push(wrong(place, format!("{} {reason}", entry.name)));
        }
    }
    if !entries.iter().any(|entry| entry.name == "url") {
        problems.push(wrong(&item.place, "an endpoint needs a url".to_owned()));
    }
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

fn set<'a>(config: &mut EndpointConfig, entry: &'a Entry) -> Result<(), (&'a Place, String)> {
    let Entry { name, at, given } = entry;
    let here = |reason: String| (&given.place, reason);
    let (Value::Text(text) | Value::Bare(text)) = &given.value else {
        return Err(here("must be one value".to_owned()));
    };
    let positive = |text: &str| match duration(text)? {
        none if none.is_zero() => Err("must be above zero".to_owned()),
        duration => Ok(duration),
    };
    match name.as_str() {
        "url" => {
            url_place(text, &SCHEMES).map_err(here)?;
            config.url = text.trim().to_owned();
        }
        "role" => {
            config.role = match text.as_str() {
                "full" => Role::Full,
                "send_only" => Role::SendOnly,
                "read_only" => Role::ReadOnly,
                _ => return Err(here("must be full, send_only or read_only".to_owned())),
            };
        }
        "timeout" => config.timeout = positive(text).map_err(here)?,
        "connect_timeout" => config.connect_timeout = positive(text).map_err(here)?,
        "concurrency" => config.concurrency = size(text, 1, 10_000).map_err(here)?,
        "response_bytes_max" => {
            config.response_bytes_max = size(text, 1_024, 1 << 30).map_err(here)?;
        }
        _ => {
            let names = FIELDS.map(|(name, ..)| name).join(", ");
            return Err((at, format!("is unknown; an endpoint has {names}")));
        }
    }
    Ok(())
}

fn size(text: &str, from: u64, to: u64) -> Result<usize, String> {
    number(text, from, to).map(|number| usize::try_from(number).unwrap_or(usize::MAX))
}

/// What this chain's nodes mean by their phrases.
pub(super) fn answers(reader: &mut Reader<'_>) -> Option<Overrides> {
    let (mut list, mut sound) = (Vec::new(), true);
    for item in reader.list(ANSWERS) {
        match answer(&item) {
            Ok(entry) => list.push(entry),
            Err(problem) => {
                reader.problems.push(problem);
                sound = false;
            }
        }
    }
    match Overrides::new(list) {
        Ok(overrides) => sound.then_some(overrides),
        Err(problem) => {
            reader.wrong(ANSWERS, problem.to_string());
            None
        }
    }
}

fn answer(item: &Given) -> Result<Override, Problem> {
    let wrong = |place: &Place, reason: String| Problem::new(place.clone(), ANSWERS, reason);
    let shape = || wrong(&item.place, "must be { phrase = \"…\", class = \"…\" }".to_owned());
    let Value::Table(entries) = &item.value else { return Err(shape()) };
    let (mut phrase, mut class) = (None, None);
    for Entry { name, at, given } in entries {
        let Value::Text(text) = &given.value else { return Err(shape()) };
        match name.as_str() {
            "phrase" => phrase = Some(text.clone()),
            "class" => {
                let known = AnswerClass::from_name(text);
                let names = AnswerClass::ALL.map(AnswerClass::name).join(", ");
                let unknown = || wrong(&given.place, format!("class must be one of {names}"));
                class = Some(known.ok_or_else(unknown)?);
            }
            _ => return Err(wrong(at, format!("{name} is unknown; there are phrase and class"))),
        }
    }
    match (phrase, class) {
        (Some(phrase), Some(class)) => Ok(Override { phrase, class }),
        _ => Err(shape()),
    }
}
