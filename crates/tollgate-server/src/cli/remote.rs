//! A node from the outside: what the client commands ask it, and how they end.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tollgate_model::metadata::entries;
use tollgate_model::secret::masked;

use super::client::{Client, Target};
use super::table::clean;
use crate::config::url_place;
use crate::failure::Failure;

/// How long a node that was there before may be silent while it is followed (I13).
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// The pause before it is asked again.
const SILENCE_PAUSE: Duration = Duration::from_secs(1);

/// Where the node is, and how answers are shown.
#[derive(Args)]
pub(super) struct RemoteArgs {
    /// The node.
    #[arg(
        long,
        global = true,
        env = "TOLLGATE_URL",
        default_value = "http://127.0.0.1:8550",
        value_parser = node_url
    )]
    url: String,
    /// Sent as a bearer token.
    #[arg(long, global = true, env = "TOLLGATE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// The API's JSON as it came, instead of tables.
    #[arg(long, global = true)]
    json: bool,
}

fn node_url(url: &str) -> Result<String, String> {
    Target::parse(url, None).map_err(|error| error.to_string())?;
    Ok(url.to_owned())
}

/// Why a command did not end well.
pub(super) enum Trouble {
    /// The node said no.
    Refused(Said),
    /// There is no node, or no answer.
    Unreachable(String),
    /// It ended, but not as it was asked for.
    Failed(String),
    /// Nobody reads what is printed any more: there is nothing left to do.
    NoReader,
}

/// An answer.
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) json: Value,
}

impl Said {
    /// A problem's own words, or as much of a stranger's as fits a line.
    fn problem(&self) -> String {
        match (self.json["title"].as_str(), self.json["detail"].as_str()) {
            (Some(title), Some(detail)) if title != detail => format!("{title}: {detail}"),
            (Some(title), _) => title.to_owned(),
            (None, _) => {
                let start: String = self.text.chars().take(200).collect();
                format!("HTTP {}, not the answer of a Tollgate node: {start}", self.status)
            }
        }
    }
}

/// A node.
pub(super) struct Remote {
    client: Client,
    target: Target,
    url: String,
    pub(super) json: bool,
}

impl Remote {
    pub(super) async fn get(&mut self, path: &str) -> Result<Said, Trouble> {
        self.call(Method::GET, path, Vec::new()).await
    }

    pub(super) async fn post(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Said, Trouble> {
        let body = serde_json::to_vec(body).map_err(|error| self.silent(&error.into()))?;
        self.call(Method::POST, path, body).await
    }

    async fn call(&mut self, method: Method, path: &str, body: Vec<u8>) -> Result<Said, Trouble> {
        let uri = self.target.uri(path).map_err(|error| self.silent(&error))?;
        let answer = self.client.call(method, uri, body.into()).await;
        let answer = answer.map_err(|error| self.silent(&error))?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let json = understood(&text);
        let said = Said { status: answer.status, text, json };
        let is_fine = (200..300).contains(&said.status) && !said.json.is_null();
        if is_fine { Ok(said) } else { Err(Trouble::Refused(said)) }
    }

    fn silent(&self, error: &Failure) -> Trouble {
        Trouble::Unreachable(format!("{} can't be reached: {error}", self.url))
    }

    /// Asks again and again where a node that was there before is silent or busy, within limits.
    pub(super) async fn get_patiently(&mut self, path: &str) -> Result<Said, Trouble> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let trouble = match self.get(path).await {
                Err(Trouble::Unreachable(why)) => Trouble::Unreachable(why),
                Err(Trouble::Refused(said)) if said.json["retryable"] == true => {
                    Trouble::Refused(said)
                }
                other => return other,
            };
            if begun.elapsed() > SILENCE_MAX {
                return Err(trouble);
            }
            if !told {
                told = true;
                eprintln!("tollgate: no answer from {}, asking again", self.url);
            }
            tokio::time::sleep(SILENCE_PAUSE).await;
        }
    }
}

/// An answer's JSON, with a transaction's metadata as text, byte for byte: read as a value, long
/// numbers would lose digits.
fn understood(text: &str) -> Value {
    let mut json: Value = serde_json::from_str(text).unwrap_or_default();
    let fields = |object: &'_ RawValue| -> Vec<(String, String)> {
        let entries = entries(object).unwrap_or_default();
        entries.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
    };
    let Ok(answer) = serde_json::from_str::<&RawValue>(text) else { return json };
    for (name, value) in fields(answer) {
        if name == "metadata" && (json[&name].is_object() || json[&name].is_array()) {
            json[&name] = value.into();
        } else if name == "tx"
            && let Value::Object(_) = &json[&name]
        {
            json[&name] = understood(&value);
        }
    }
    json
}

/// Runs a command against a node; the exit code says how it ended.
pub(super) fn run<F>(args: RemoteArgs, command: F) -> Result<ExitCode, Failure>
where
    F: AsyncFnOnce(&mut Remote) -> Result<(), Trouble>,
{
    let RemoteArgs { url, api_key, json } = args;
    let target = Target::parse(&url, api_key.as_deref())?;
    // Without user, password and path, which may be secrets.
    let url = masked(&url_place(&url, &["http"])?);
    let mut remote = Remote { client: Client::new(target.clone()), target, url, json };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (code, why) = match runtime.block_on(command(&mut remote)) {
        Ok(()) | Err(Trouble::NoReader) => return Ok(ExitCode::SUCCESS),
        Err(Trouble::Refused(said)) => {
            if json {
                // The exit code tells, whether or not it can be printed.
                let _ = say(&said.text);
            }
            (1, said.problem())
        }
        Err(Trouble::Failed(why)) => (1, why),
        Err(Trouble::Unreachable(why)) => (3, why),
    };
    eprintln!("tollgate: {}", clean(&why));
    Ok(ExitCode::from(code))
}

/// Prints a line, and notices when nobody reads any more.
pub(super) fn say(line: &str) -> Result<(), Trouble> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|_| Trouble::NoReader)
}

/// Text as a part of a path or a query.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped += &format!("%{byte:02X}");
        }
    }
    escaped
}

/// A path with the parameters that are given.
pub(super) fn with_query(path: &str, words: &[(&str, Option<String>)]) -> String {
    let given: Vec<String> = words
        .iter()
        .filter_map(|(name, value)| value.as_ref().map(|v| format!("{name}={}", escaped(v))))
        .collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_escaped_and_what_is_not_is_left_out() {
        let words = [("a", Some("x y&z=é".to_owned())), ("b", None), ("c", Some("1".to_owned()))];
        assert_eq!(with_query("/p", &words), "/p?a=x%20y%26z%3D%C3%A9&c=1");
        assert_eq!(with_query("/p", &[("b", None)]), "/p");
        assert_eq!(escaped("../tx"), "..%2Ftx");
    }

    #[test]
    fn metadata_are_shown_byte_for_byte() {
        let given = r#"{ "amount": 18446744073709551617 }"#;
        let one = understood(&format!(r#"{{"txId":"a","metadata":{given}}}"#));
        assert_eq!((&one["metadata"], &one["txId"]), (&given.into(), &"a".into()));
        let acted = understood(&format!(r#"{{"tx":{{"metadata":{given}}}}}"#));
        assert_eq!(acted["tx"]["metadata"], given);
        assert_eq!(understood("nonsense"), Value::Null);
    }

    #[test]
    fn a_problem_is_told_in_its_own_words() {
        let said = |text: &str| Said {
            status: 502,
            text: text.to_owned(),
            json: serde_json::from_str(text).unwrap_or_default(),
        };
        let problem = said(r#"{"title":"Not an address","detail":"submitter: too short"}"#);
        assert_eq!(problem.problem(), "Not an address: submitter: too short");
        let stranger = said("<html>Bad gateway</html>").problem();
        assert!(stranger.starts_with("HTTP 502, not the answer of a Tollgate node"), "{stranger}");
    }
}
