//! The examples of the README and of the pages about the API and the command line are run as they
//! stand, and answer as shown.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Program, command, free_port, http};

/// Stands for what is different each time.
const ANYTHING: &str = "…";
/// Between the outputs of two examples.
const SEPARATOR: char = '\u{1e}';
/// The node's address in the pages.
const HOST: &str = "localhost:8550";
/// A block that contains one of these is an example that is run.
const RUN: [&str; 7] = [
    "curl ",
    "tollgate tx ",
    "tollgate submitter ",
    "tollgate pool ",
    "tollgate completions",
    "tollgate nodes",
    "tollgate explain ",
];
/// A node that has not come up by then does not.
const PATIENCE: Duration = Duration::from_secs(120);

/// `tollgate dev`, as a user starts it.
pub(crate) struct Node {
    _program: Program,
    pub(crate) host: String,
}

impl Node {
    pub(crate) fn start() -> Self {
        let host = format!("127.0.0.1:{}", free_port());
        let mut command = command();
        command.args(["dev", "--listen", &host]);
        let node = Self { _program: Program::start(&mut command), host };
        let begun = Instant::now();
        // The port is taken before the chain is there: the first call must not come too early.
        while !node.is_ready() {
            assert!(begun.elapsed() < PATIENCE, "the node is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        node
    }
}

impl Node {
    fn is_ready(&self) -> bool {
        let request = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let port = self.host.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap();
        http(port, request).is_some_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

/// A fenced block of a page.
struct Block {
    language: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    found
}

/// Each example with the answer that is shown right after it.
fn examples(page: &str) -> Vec<(String, Block)> {
    let mut examples = Vec::new();
    let mut blocks = blocks(page).into_iter().peekable();
    while let Some(block) = blocks.next() {
        if block.language == "sh" && RUN.iter().any(|word| block.text.contains(word)) {
            let shown = blocks.next_if(|next| ["json", "text"].contains(&next.language.as_str()));
            let shown = shown.unwrap_or_else(|| panic!("shows no answer:\n{}", block.text));
            examples.push((block.text, shown));
        }
    }
    examples
}

/// Runs all examples in one shell, as a reader pastes them; returns what each printed.
fn run(examples: &[(String, Block)], host: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut script = String::new();
    for (example, _) in examples {
        script += &format!("{}\nprintf '\\036'\n", example.replace(HOST, host));
    }
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .env("NO_PROXY", "*")
        .env("PATH", path)
        .env("TOLLGATE_URL", format!("http://{host}"))
        // The node of these examples asks for no key; that of "Run it" is tested by itself.
        .env("TOLLGATE_API_KEY", "not-looked-at")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut printed: Vec<String> = printed.split(SEPARATOR).map(ToOwned::to_owned).collect();
    let rest = printed.pop().unwrap();
    let failed = examples.get(printed.len()).map_or("", |(example, _)| example);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "failed:\n{failed}\n{rest}\n{errors}");
    printed
}

fn check(page: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let examples = examples(&std::fs::read_to_string(path).unwrap());
    assert!(!examples.is_empty(), "{page} has no examples");
    let node = Node::start();
    let printed = run(&examples, &node.host);
    for ((example, shown), printed) in examples.iter().zip(printed) {
        let fits = match shown.language.as_str() {
            "json" => json_fits(&shown.text, &printed),
            _ => text_fits(&shown.text, &printed),
        };
        assert!(
            fits,
            "{page} shows another answer.\n{example}\n{}\nbut got\n{printed}",
            shown.text
        );
    }
}

fn json_fits(shown: &str, printed: &str) -> bool {
    let values = |text: &str| -> Vec<Value> {
        let values = serde_json::Deserializer::from_str(text).into_iter();
        values.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error} in {text}"))
    };
    let (shown, printed) = (values(shown), values(printed));
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(s, p)| value_fits(s, p))
}

/// A shown object may be a part of the printed one.
fn value_fits(shown: &Value, printed: &Value) -> bool {
    match (shown, printed) {
        (Value::String(text), _) if text == ANYTHING => !printed.is_null(),
        (Value::Object(shown), Value::Object(printed)) => shown
            .iter()
            .all(|(name, part)| printed.get(name).is_some_and(|found| value_fits(part, found))),
        (Value::Array(shown), Value::Array(printed)) => {
            shown.len() == printed.len() && shown.iter().zip(printed).all(|(s, p)| value_fits(s, p))
        }
        _ => shown == printed,
    }
}

fn text_fits(shown: &str, printed: &str) -> bool {
    let (shown, printed): (Vec<_>, Vec<_>) = (shown.lines().collect(), printed.lines().collect());
    shown.len() == printed.len() && shown.iter().zip(&printed).all(|(s, p)| line_fits(s, p))
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    let mut open = false;
    while let Some(part) = parts.next() {
        open = true;
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    open || rest.is_empty()
}

#[test]
fn the_examples_of_the_readme_answer_as_shown() {
    check("README.md");
}

/// The steps of "Run it", with the settings that it says are to be filled in.
#[test]
fn run_it_of_the_readme_serves_with_a_key_as_written() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(path).unwrap();
    let section = page.split("## Run it").nth(1).unwrap().split("\n## ").next().unwrap();
    let shown = blocks(section);
    let (steps, call) = (&shown[0].text, &shown[1].text);
    assert!(call.contains("Bearer $TOLLGATE_API_KEY"), "{call}");
    let (port, host) = (free_port(), format!("127.0.0.1:{}", free_port()));
    let _chain = Program::start(command().args(["devchain", "--port", &port.to_string()]));
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    let secret = tollgate_devchain::dev_accounts()[0].private_key;
    std::fs::write(&key, alloy_primitives::hex::encode(secret)).unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let script = steps.replace(
        "tollgate serve --config tollgate.toml",
        "tollgate serve --config tollgate.toml &",
    ) + &format!(
        "node=$!\ntrap 'kill $node; wait' EXIT\nuntil curl -sf {host}/readyz > ready; do sleep 0.1; done\n{}\n\
             test $(curl -s -o refused -w '%{{http_code}}' {host}/api/v1/submitters) = 401\n",
        call.replace(HOST, &host)
    );
    let output = Command::new("timeout")
        .args(["60", "bash", "-euo", "pipefail", "-c", &script])
        .current_dir(folder.path())
        .env("NO_PROXY", "*")
        .env("RUST_LOG", "warn")
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("TOLLGATE_LISTEN", &host)
        .env("TOLLGATE_RPC_URL", format!("http://127.0.0.1:{port}"))
        .env("TOLLGATE_PRIVATE_KEY_FILE", &key)
        .env("TOLLGATE_ALLOW_TEST_FEATURES", "1")
        .env("TOLLGATE_DATABASE_URL", "sqlite:tollgate.db")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{printed}\n{errors}");
    assert!(printed.contains("\"items\":[{"), "{printed}\n{errors}");
    assert!(!printed.contains("tg_live_") && !errors.contains("tg_live_"), "the key is not shown");
}

#[test]
fn the_examples_of_the_api_page_answer_as_shown() {
    check("docs/api.md");
}

#[test]
fn the_examples_of_the_command_line_page_answer_as_shown() {
    check("docs/cli.md");
}

#[test]
fn the_examples_of_the_tour_answer_as_shown() {
    check("docs/tour.md");
}

#[test]
fn the_examples_of_the_page_on_pools_answer_as_shown() {
    check("docs/pools.md");
}

#[test]
fn a_wrong_answer_is_noticed() {
    assert!(json_fits(r#"{"a":"…"} 7"#, r#"{"a":1,"b":2}7"#));
    assert!(!json_fits(r#"{"a":"…"}"#, r#"{"b":2}"#));
    assert!(!json_fits(r#"{"a":"…"}"#, r#"{"a":null}"#));
    assert!(!json_fits("[]", "[1]"));
    assert!(!json_fits("7", "7 8"));
    assert!(text_fits("a…b…\n", "a1b2\n"));
    assert!(!text_fits("a…b\n", "a1\n"));
    assert!(!text_fits("a\n", "a1\n"));
    assert!(!text_fits("a\n", "a\nb\n"));
}
