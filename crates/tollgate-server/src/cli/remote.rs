//! The common part of the client commands: calls to a node, output and exit codes.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hyper::Method;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::Instant;
use tollgate_api::header::NEXT_CURSOR;
use tollgate_api::{ErrorCode, Problem};
use tollgate_client::{Node, connect};
use tollgate_http::{HttpError, Limits, TlsFiles};
use tollgate_model::secret::masked;

use super::table::clean;
use crate::cli::output::errln;
use crate::config::url_place;
use crate::failure::{Failure, io_reason};

/// Connection limits (I13).
const LIMITS: Limits =
    Limits { connect_timeout: RESPONSE_TIMEOUT, idle_max: 1, response_bytes_max: 64 * 1024 * 1024 };
/// The longest time for a response, including long polls.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);
/// The longest silence of a node that has answered before, while it is polled (I13).
const SILENCE_MAX: Duration = Duration::from_secs(300);
/// The pause between two calls to a silent node.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The longest file with an API key (I13).
const KEY_BYTES_MAX: u64 = 1_024;

/// The node that is called, and the form of the output.
#[derive(Args)]
pub(super) struct RemoteArgs {
    /// URL of the node.
    #[arg(
        long,
        global = true,
        env = "TOLLGATE_URL",
        default_value = "http://127.0.0.1:8550",
        value_parser = node_url
    )]
    url: String,
    /// Id of the chain that the command is about. Needed if the node serves several.
    #[arg(long, global = true, value_name = "ID")]
    chain_id: Option<u64>,
    /// API key, sent as a bearer token.
    #[arg(long, global = true, env = "TOLLGATE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Read the API key from this file.
    #[arg(
        long,
        global = true,
        env = "TOLLGATE_API_KEY_FILE",
        value_name = "FILE",
        conflicts_with = "api_key"
    )]
    api_key_file: Option<PathBuf>,
    /// Trust the certificates of this PEM file in addition to the system's.
    #[arg(long, global = true, env = "TOLLGATE_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Present the certificate of this PEM file, for nodes that ask for one.
    #[arg(long, global = true, env = "TOLLGATE_CLIENT_CERT_FILE", value_name = "FILE")]
    client_cert_file: Option<PathBuf>,
    /// Private key of that certificate, in PEM.
    #[arg(long, global = true, env = "TOLLGATE_CLIENT_KEY_FILE", value_name = "FILE")]
    client_key_file: Option<PathBuf>,
    /// Print the API's JSON unchanged instead of tables.
    #[arg(long, global = true)]
    json: bool,
    /// Print tables in full, also where they are wider than 80 columns.
    #[arg(long, global = true, conflicts_with = "json")]
    wide: bool,
}

fn node_url(url: &str) -> Result<String, String> {
    Node::check(url).map_err(|error| error.to_string())?;
    Ok(url.to_owned())
}

/// The reason why a command failed.
pub(super) enum Failed {
    /// The node answered with a problem.
    Refused(Box<Refusal>),
    /// There is no node, or no answer.
    Unreachable(String),
    /// The calls succeeded, but not what they were for.
    NotAchieved(String),
    /// Nobody reads the output any more: there is nothing left to do.
    NoReader,
}

/// An answer that is not the one that was asked for.
pub(super) struct Refusal {
    status: u16,
    text: String,
    /// `None` if it is not the answer of a Tollgate node.
    problem: Option<Problem>,
}

impl Refusal {
    pub(super) fn has_code(&self, code: ErrorCode) -> bool {
        self.problem.as_ref().and_then(Problem::known_code) == Some(code)
    }

    /// The oldest number of the feed, in the refusal of a cursor before it.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.problem.as_ref().and_then(|problem| problem.oldest)
    }

    fn is_retryable(&self) -> bool {
        self.problem.as_ref().is_some_and(|problem| problem.retryable)
    }
}

/// The problem's title and detail, or as much of another answer as fits a line.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Some(Problem { title, detail, .. }) if title != detail => {
                write!(f, "{title}: {detail}")
            }
            Some(Problem { title, .. }) => f.write_str(title),
            None => {
                let start: String = self.text.chars().take(200).collect();
                write!(f, "HTTP {}, not the answer of a Tollgate node: {start}", self.status)
            }
        }
    }
}

/// An answer: as it came, and read.
pub(super) struct Answer<T> {
    pub(super) text: String,
    pub(super) value: T,
}

/// A node.
pub(super) struct Remote {
    node: Node,
    url: String,
    pub(super) json: bool,
    /// Tables are printed in full.
    pub(super) wide: bool,
}

impl Remote {
    pub(super) async fn get<T: DeserializeOwned>(
        &mut self,
        path: &str,
    ) -> Result<Answer<T>, Failed> {
        self.call(Method::GET, path, Vec::new()).await
    }

    pub(super) async fn post<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failed> {
        self.send(Method::POST, path, body).await
    }

    pub(super) async fn patch<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failed> {
        self.send(Method::PATCH, path, body).await
    }

    pub(super) async fn put<T: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failed> {
        self.send(Method::PUT, path, body).await
    }

    async fn send<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Failed> {
        let body =
            serde_json::to_vec(body).map_err(|error| Failed::Unreachable(error.to_string()))?;
        self.call(method, path, body).await
    }

    /// Deletes what is at a path; there is no answer to read.
    pub(super) async fn delete(&mut self, path: &str) -> Result<(), Failed> {
        match self.call::<serde_json::Value>(Method::DELETE, path, Vec::new()).await {
            Ok(_) => Ok(()),
            Err(Failed::Refused(refusal)) if refusal.status == 204 => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Answer<T>, Failed> {
        let answer = self.node.send(method, path, Bytes::from(body), RESPONSE_TIMEOUT).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let (status, text) = (answer.status, String::from_utf8_lossy(&answer.body).into_owned());
        match serde_json::from_str(&text) {
            Ok(value) if (200..300).contains(&status) => Ok(Answer { text, value }),
            Ok(_) | Err(_) => {
                let problem = serde_json::from_str(&text).ok();
                Err(Failed::Refused(Box::new(Refusal { status, text, problem })))
            }
        }
    }

    /// Reads a page of CSV: its text, and the cursor of the next page.
    pub(super) async fn get_csv(&mut self, path: &str) -> Result<(String, Option<String>), Failed> {
        let node = self.node.clone().with_accept("text/csv");
        let answer = node.send(Method::GET, path, Bytes::new(), RESPONSE_TIMEOUT).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        let is_csv = answer.header("content-type").is_some_and(|it| it.starts_with("text/csv"));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if answer.status == 200 && is_csv {
            return Ok((text, answer.header(NEXT_CURSOR).map(str::to_owned)));
        }
        let problem = serde_json::from_str(&text).ok();
        Err(Failed::Refused(Box::new(Refusal { status: answer.status, text, problem })))
    }

    fn unreachable(&self, error: &HttpError) -> Failed {
        Failed::Unreachable(format!("{} can't be reached: {error}", self.url))
    }

    /// Calls a node that has answered before again while it is silent or busy, within limits.
    pub(super) async fn get_patiently<T: DeserializeOwned>(
        &mut self,
        path: &str,
    ) -> Result<Answer<T>, Failed> {
        let begun = Instant::now();
        let mut told = false;
        loop {
            let failed = match self.get(path).await {
                Err(Failed::Unreachable(why)) => Failed::Unreachable(why),
                Err(Failed::Refused(refusal)) if refusal.is_retryable() => Failed::Refused(refusal),
                other => return other,
            };
            if begun.elapsed() > SILENCE_MAX {
                return Err(failed);
            }
            if !told {
                told = true;
                errln!("tollgate: no answer from {}, trying again", self.url);
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Asks the node from now on to hold answers about a transaction back until it is final.
    pub(super) fn wait_for_finality(&mut self, seconds: u32) {
        self.node = self.node.clone().with_wait(seconds);
    }

    /// Prints an answer: unchanged with `--json`, else as `table` prints it.
    pub(super) fn print<T>(
        &self,
        answer: &Answer<T>,
        table: impl FnOnce(&T) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        if self.json { print_line(&answer.text) } else { table(&answer.value) }
    }
}

/// Runs a command against a node; the exit code says how it ended.
pub(super) fn run<F>(args: RemoteArgs, command: F) -> Result<ExitCode, Failure>
where
    F: AsyncFnOnce(&mut Remote) -> Result<(), Failed>,
{
    run_within(args, Duration::MAX, command)
}

/// The same for a command that must end within `limit`; if it does not, the node counts as unreachable.
pub(super) fn run_within<F>(
    args: RemoteArgs,
    limit: Duration,
    command: F,
) -> Result<ExitCode, Failure>
where
    F: AsyncFnOnce(&mut Remote) -> Result<(), Failed>,
{
    let RemoteArgs { url, chain_id, api_key, api_key_file, ca_file, .. } = args;
    let RemoteArgs { client_cert_file, client_key_file, json, wide, .. } = args;
    let api_key = match api_key_file {
        Some(file) => Some(key_in(&file)?),
        None => api_key,
    };
    let files = TlsFiles { ca_file, cert_file: client_cert_file, key_file: client_key_file };
    let mut node = Node::new(&url, connect(&LIMITS, &files)?)?;
    if let Some(key) = api_key {
        node = node.with_api_key(&key)?;
    }
    if let Some(chain_id) = chain_id {
        node = node.with_chain(chain_id);
    }
    // Without user, password and path, which may be secrets.
    let url = masked(&url_place(&url, &["http", "https"])?);
    let mut remote = Remote { node, url, json, wide };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let late = format!("{} has not answered within {limit:?}", remote.url);
    let ended = runtime.block_on(async { tokio::time::timeout(limit, command(&mut remote)).await });
    let (code, why) = match ended.unwrap_or(Err(Failed::Unreachable(late))) {
        Ok(()) | Err(Failed::NoReader) => return Ok(ExitCode::SUCCESS),
        Err(Failed::Refused(refusal)) => {
            if json {
                // The exit code tells, whether or not it can be printed.
                let _ = print_line(&refusal.text);
            }
            (1, refusal.to_string())
        }
        Err(Failed::NotAchieved(why)) => (1, why),
        Err(Failed::Unreachable(why)) => {
            if json {
                let problem = json!({
                    "title": "Node unreachable",
                    "code": "unreachable",
                    "detail": why,
                    "retryable": true,
                });
                let _ = print_line(&problem.to_string());
            }
            (3, why)
        }
    };
    errln!("tollgate: {}", clean(&why));
    Ok(ExitCode::from(code))
}

/// The API key in a file; line ends around it don't count.
pub(super) fn key_in(file: &Path) -> Result<String, Failure> {
    let named = |why: String| format!("--api-key-file: {}: {why}", file.display());
    let length = std::fs::metadata(file).map_err(|error| named(io_reason(&error)))?.len();
    if length > KEY_BYTES_MAX {
        return Err(named(format!("longer than {KEY_BYTES_MAX} bytes")).into());
    }
    let text = std::fs::read_to_string(file).map_err(|error| named(io_reason(&error)))?;
    match text.trim() {
        "" => Err(named("is empty".to_owned()).into()),
        key => Ok(key.to_owned()),
    }
}

/// Prints a text that ends with a line end; fails when nobody reads the output any more.
pub(super) fn print_text(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(not_printed)
}

/// There is nothing left to do. A full disk is reported at the end, a reader that has gone is not.
fn not_printed(error: std::io::Error) -> Failed {
    super::output::keep(error);
    Failed::NoReader
}

/// Prints a line; fails when nobody reads the output any more.
pub(super) fn print_line(line: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(not_printed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_shown_as_title_and_detail_or_as_the_start_of_a_strangers_answer() {
        let shown = |text: &str| {
            let problem = serde_json::from_str(text).ok();
            Refusal { status: 502, text: text.to_owned(), problem }.to_string()
        };
        let problem = Problem::new(ErrorCode::InvalidAddress, "submitter: too short");
        let problem = serde_json::to_string(&problem).unwrap();
        assert_eq!(shown(&problem), "Invalid address: submitter: too short");
        let stranger = shown("<html>Bad gateway</html>");
        assert!(stranger.starts_with("HTTP 502, not the answer of a Tollgate node"), "{stranger}");
    }
}
