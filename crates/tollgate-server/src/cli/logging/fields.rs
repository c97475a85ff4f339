//! The dictionary of log fields, and the tests that all log lines of the program and docs/logs.md keep to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Every name of a field, with what it holds. One word for one thing.
const FIELDS: &[(&str, &str)] = &[
    ("account", "An account's address."),
    ("accounts", "The number of accounts that the node serves."),
    ("acted", "Whether a decision of the stuck policy was carried out."),
    ("action", "The action that the stuck policy decided."),
    ("actor", "A part of the program that panicked."),
    ("adopted", "Nonces of a hole that are filled from now on."),
    ("after", "The number of the last event that a receiver has taken."),
    ("all", "What each endpoint claims."),
    ("applied", "The number of migrations that were applied."),
    ("attempts", "The tries to deliver an event."),
    ("block", "A block's number."),
    ("block_hash", "A block's hash."),
    ("chain", "A chain's name in the configuration."),
    ("chain_id", "The chain. On every line about a chain."),
    ("claimed", "What one endpoint claims."),
    ("claims", "What the endpoints claim about a receipt."),
    ("class", "The class of a node's answer to a send (docs/errors/send-answers.md)."),
    ("closed", "The number of database connections that were closed."),
    ("code", "The code of a problem (docs/errors)."),
    ("configured", "The mode in the configuration, which is not the account's."),
    ("cursor", "The next nonce to assign."),
    ("data", "What an event reports, as JSON."),
    ("database", "The database's URL without secrets."),
    ("detail", "What was wrong, as the caller was told, or what an alert is about."),
    ("digest", "The digest of a set of accounts."),
    ("doubted", "Whether an earlier send of the same bytes had no clear answer."),
    (
        "duration_ms",
        "The time from the head of a request to the head of its answer, in milliseconds.",
    ),
    ("endpoint", "An RPC endpoint: scheme, host and port."),
    ("error", "Why something did not work."),
    ("event", "The transition or note in a transaction's history."),
    ("expired", "Nonces whose reservations expired."),
    ("fencing_token", "The token under which the node writes for the submitter."),
    ("file", "A file of the archive."),
    ("finality", "The rule by which a receipt is final."),
    ("first", "The lowest of some nonces."),
    ("forgotten", "The number of request ids that were forgotten."),
    ("found", "The number of open transactions that were loaded."),
    ("free", "The number of nonces that came back."),
    ("from", "The state, status, mode or block before."),
    ("grant", "How a lease was obtained: `First`, `Renewed` or `TakenOver`."),
    ("handed_back", "The number of nonces that an operator handed back."),
    ("head", "The number of the newest block."),
    ("header_timeout", "`http.header_timeout`."),
    ("held", "The number of nonces that callers hold."),
    ("highest", "The highest count that an endpoint told."),
    ("hosts", "The hosts of the database's URL."),
    ("id", "The id of an event (docs/events.md)."),
    ("key", "The reference to a key, never the key."),
    ("key_id", "The public id of an API key."),
    ("kind", "The kind of an alert."),
    ("last", "The highest of some nonces."),
    ("leases", "The number of leases."),
    ("level", "The level of an alert."),
    ("limit", "The limit that was reached."),
    ("lines", "The number of log lines that were lost."),
    ("listen", "An address that the node listens on."),
    ("lowest", "The lowest nonce of a hole."),
    ("max", "The value of the limit."),
    ("max_connections", "The connections that are served at once."),
    ("method", "An HTTP or JSON-RPC method."),
    ("metrics_listen", "The address of the metrics' own listener."),
    ("milliseconds", "The difference of two clocks."),
    ("mined", "A count of mined transactions."),
    ("mode", "The account's mode."),
    ("no_auth", "Whether the API asks for no keys."),
    (
        "node_id",
        "The node: its name and the id of its start. The writer of a change, or another node.",
    ),
    ("nonce", "The transaction's nonce, or another one that the line is about."),
    ("notices", "The number of notices about alerts in one message."),
    ("of", "The account, block or transaction that a claim is about."),
    ("off", "What is switched off."),
    ("open_files_max", "The limit on open files."),
    ("outcome", "The outcome of a call of an endpoint."),
    ("page", "The address of the pages for operators."),
    ("path", "The path of a request, without what may be a private key."),
    ("place", "The place of an item in a batch."),
    ("reason", "Why a transaction changed, or the reason that an operator or policy gave."),
    ("remote", "The address of a caller."),
    ("removed", "The number of transactions that were removed."),
    ("request_id", "The caller's id of the request."),
    ("resent", "The number of transactions that are sent again."),
    ("route", "The pattern of the route: few values, whatever callers ask for."),
    ("seq", "The number of an event."),
    ("serves", "Whether this node serves the account."),
    ("sink", "A receiver of events or alerts."),
    ("status", "The status of an HTTP answer."),
    ("subject", "The account, chain or part that an alert is about."),
    ("submitter", "Chain and account."),
    ("succeeded", "Whether a receipt says that the transaction succeeded."),
    ("through", "The end of the last transaction that was removed."),
    ("times", "How often it happened since the last such line."),
    ("tls", "Whether the API speaks TLS."),
    ("to", "The state, status, mode or block after."),
    ("trace_id", "The request's trace id, which the caller got as `x-request-id`."),
    ("tx_hash", "The hash of the attempt that the line is about: the mined one, else the newest."),
    ("tx_id", "The transaction."),
    ("tx_route", "`public` or `private`."),
    ("usable", "The number of API keys that can be used."),
    ("used", "What is used of several claims."),
    ("version", "The version of the database's schema, or of the program."),
    ("wanted", "The value of a setting that can't be used."),
    ("what", "The kind of a claim, or the TLS files of a listener."),
];

/// The macros that write log lines or begin spans.
const MACROS: [&str; 8] = [
    "trace!(",
    "debug!(",
    "info!(",
    "warn!(",
    "error!(",
    "error_span!(",
    "info_span!(",
    "debug_span!(",
];
/// Crates that are no part of a node.
const NOT_SHIPPED: [&str; 5] =
    ["tollgate-testkit", "tollgate-sim", "tollgate-chaos", "tollgate-proofs", "tollgate-fuzzkit"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The arguments of a macro call, from behind its bracket.
fn arguments(text: &str) -> Vec<&str> {
    let (mut all, mut begin, mut depth, mut in_text, mut escaped) = (vec![], 0, 1, false, false);
    for (at, c) in text.char_indices() {
        match (in_text, c) {
            (true, _) if escaped => escaped = false,
            (true, '\\') => escaped = true,
            (_, '"') => in_text = !in_text,
            (true, _) => {}
            (false, '(' | '[' | '{') => depth += 1,
            (false, ')' | ']' | '}') => depth -= 1,
            (false, ',') if depth == 1 => {
                all.push(text[begin..at].trim());
                begin = at + 1;
            }
            (false, _) => {}
        }
        if depth == 0 {
            all.push(text[begin..at].trim());
            break;
        }
    }
    all
}

/// The names of the fields of one call: those before its message.
fn names(arguments: &[&str]) -> Vec<String> {
    let fields = arguments.iter().take_while(|argument| !argument.starts_with(['"', '$']));
    let fields = fields.filter(|argument| !argument.is_empty() && !argument.starts_with("target:"));
    let name = |field: &&str| {
        let name = field.split(" = ").next().unwrap_or_default();
        name.trim_start_matches(['%', '?']).to_owned()
    };
    fields.map(name).collect()
}

/// The names of fields in the sources of a folder, each with a file that has it.
fn used_in(folder: &Path, used: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            used_in(&path, used);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("logging/fields.rs")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            for call in MACROS.iter().flat_map(|name| code.split(name).skip(1)) {
                for name in names(&arguments(call)) {
                    used.entry(name).or_insert_with(|| path.clone());
                }
            }
        }
    }
}

fn used() -> BTreeMap<String, PathBuf> {
    let mut used = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap().map(Result::unwrap) {
        let is_shipped = !NOT_SHIPPED.iter().any(|name| entry.file_name() == **name);
        if is_shipped {
            used_in(&entry.path().join("src"), &mut used);
        }
    }
    used
}

#[test]
fn every_field_of_a_log_line_is_in_the_dictionary_and_the_other_way_round() {
    let used = used();
    let known: BTreeSet<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
    let unknown: Vec<_> = used.iter().filter(|(name, _)| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty(), "add these to FIELDS, or use the word that is there: {unknown:#?}");
    // The line about lost lines is written by hand.
    let unused: Vec<_> =
        known.iter().filter(|name| !used.contains_key(**name) && **name != "lines").collect();
    assert!(unused.is_empty(), "no line has these: {unused:?}");
}

#[test]
fn dictionary_of_fields_is_sorted_and_documented_as_it_is() {
    assert!(FIELDS.is_sorted_by(|one, two| one.0 < two.0), "sort FIELDS by name");
    let mut table = String::from("| field | what it holds |\n|---|---|\n");
    for (name, about) in FIELDS {
        writeln!(table, "| `{name}` | {about} |").unwrap();
    }
    let page = std::fs::read_to_string(root().join("docs/logs.md")).unwrap();
    let (_, rest) = page.split_once("<!-- fields -->\n").expect("docs/logs.md marks the table");
    let (shown, _) = rest.split_once("<!-- end of fields -->").expect("and its end");
    assert!(shown == table, "put this into docs/logs.md between the marks:\n{table}");
}

#[test]
fn fields_of_a_call_are_those_before_its_message() {
    let call = r#"target: "t", %submitter, tx_id = %tx.id(1, 2), ?kind, "a, {}", nonce), other"#;
    assert_eq!(names(&arguments(call)), ["submitter", "tx_id", "kind"]);
}
