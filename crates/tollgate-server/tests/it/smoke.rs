//! Every command of every help text, run as it ships: without debug assertions and without the
//! features of tests. A build with them hides what only they check.
//!
//! The commands are read from the binary's own help, and each must have a row in [`ROWS`]: a new
//! command can't be forgotten. `[profile.smoke]` is the build; `./test` makes it beforehand.

mod rows;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use tollgate_devchain::dev_accounts;
use tollgate_model::Address;
use tollgate_testkit::http::ask;
use tollgate_testkit::program::{Program, command, free_port};
use tollgate_testkit::{PgServer, rpc, wait};

use crate::program::Ran;
use rows::ROWS;
use rows::Row::{self, Ends, Follows, Refuses, Stays};

/// The binary, built if it is not there or not new.
fn binary() -> PathBuf {
    let debug = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .args(["build", "--quiet", "--profile", "smoke", "--locked"])
        .args(["-p", "tollgate-server", "--bin", "tollgate"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .stdin(Stdio::null());
    // What cargo says to a test it must not say to a build: some build scripts would run anew.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            build.env_remove(name);
        }
    }
    assert!(build.status().unwrap().success(), "the smoke build failed");
    debug.with_file_name("smoke").join("tollgate")
}

fn run(binary: &Path, args: &[&str]) -> Ran {
    let temporary = tempfile::tempdir().unwrap();
    let ran = Ran::of(command(binary).args(args).env("TMPDIR", temporary.path()));
    assert!(!ran.err.contains("panicked"), "tollgate {args:?}: {ran:?}");
    ran
}

/// The commands without subcommands below a command, by its help.
fn leaves(binary: &Path, above: &[String]) -> Vec<Vec<String>> {
    let mut args: Vec<&str> = above.iter().map(String::as_str).collect();
    args.push("--help");
    let help = run(binary, &args);
    assert_eq!(help.code, Some(0), "{args:?}: {help:?}");
    let listed = help.out.split("Commands:\n").nth(1).unwrap_or_default();
    let names = listed.lines().take_while(|line| line.starts_with("  "));
    let names = names.filter(|line| !line.starts_with("   ")).filter_map(|line| {
        let name = line.split_whitespace().next()?;
        (name != "help").then(|| [above, &[name.to_owned()]].concat())
    });
    let below: Vec<_> = names.collect();
    match below.is_empty() {
        true => vec![above.to_vec()],
        false => below.iter().flat_map(|command| leaves(binary, command)).collect(),
    }
}

/// A node with a chain, databases and files, for commands that need them.
struct Place {
    binary: PathBuf,
    _node: Program,
    url: String,
    rpc_url: String,
    server: PgServer,
    folder: tempfile::TempDir,
    /// A transaction that is CONFIRMED.
    done: String,
}

impl Place {
    async fn new(binary: PathBuf) -> Self {
        let port = free_port();
        let mut dev = command(&binary);
        dev.args(["dev", "--block-interval", "50ms", "--listen", &format!("127.0.0.1:{port}")]);
        dev.env("TOLLGATE_EVENTS_ENABLED", "true").env("TOLLGATE_RESERVATIONS_ENABLED", "true");
        let node = Program::start(&mut dev);
        let chain = node.line_with("dev chain").await;
        let rpc_url = chain.split_whitespace().last().unwrap().to_owned();
        node.line_with("API").await;
        let folder = tempfile::tempdir().unwrap();
        let key = dev_accounts()[0].private_key.to_string();
        std::fs::write(folder.path().join("keys"), key).unwrap();
        std::fs::write(folder.path().join("password"), "correct horse").unwrap();
        let file = format!(
            "database.url = \"sqlite:{}\"\nretention = {{ finished_after = \"1h\", mode = \"drop\" }}\n",
            folder.path().join("f.db").display()
        );
        std::fs::write(folder.path().join("tollgate.toml"), file).unwrap();
        let (url, server) = (format!("http://127.0.0.1:{port}"), PgServer::start().await);
        let mut place =
            Self { binary, _node: node, url, rpc_url, server, folder, done: String::new() };
        place.done = place.send(&["--wait"]);
        place
    }

    /// The id of a new transaction.
    fn send(&self, more: &[&str]) -> String {
        let (from, to) = (account(0), account(1));
        let args = ["tx", "send", "--from", &from, "--to", &to, "--url", &self.url, "--json"];
        let sent = run(&self.binary, &[&args, more].concat());
        assert_eq!(sent.code, Some(0), "{sent:?}");
        let sent: serde_json::Value = serde_json::from_str(&sent.out).unwrap();
        sent["txId"].as_str().unwrap().to_owned()
    }

    /// The id of a transaction that a node of the chain has, and no block.
    async fn pending(&self) -> String {
        rpc::call(&self.rpc_url, "devchain_pauseMining", json!([])).await;
        let tx_id = self.send(&["--replaceable"]);
        wait::until("a node to have it", || async {
            let got = run(&self.binary, &["tx", "get", &tx_id, "--url", &self.url]);
            got.out.contains("TRACKING/PENDING").then_some(())
        })
        .await;
        tx_id
    }

    /// The name of a pool.
    fn pool(&self) -> String {
        let name = "payouts".to_owned();
        let set = run(&self.binary, &["pool", "set", &name, &account(0), "--url", &self.url]);
        assert_eq!(set.code, Some(0), "{set:?}");
        name
    }

    /// An account that was opened while the node runs.
    fn opened(&self) -> String {
        let address = Address::repeat_byte(0xbb).to_string();
        let args = ["submitter", "add", "caller", "--address", &address, "--url", &self.url];
        let added = run(&self.binary, &args);
        assert_eq!(added.code, Some(0), "{added:?}");
        address
    }

    /// An account whose count the node doubts: its one endpoint counts more than a window too many.
    async fn doubted(&self) -> String {
        rpc::call(&self.rpc_url, "devchain_setPendingOffset", json!([100])).await;
        account(2)
    }

    /// A nonce of the last account that a caller holds, and the proof.
    fn reserved(&self) -> [String; 3] {
        let reserve = ["submitter", "nonces", "reserve", &account(9), "--url", &self.url, "--json"];
        let held: serde_json::Value =
            serde_json::from_str(&run(&self.binary, &reserve).out).unwrap();
        let token = held["ownerToken"].as_str().unwrap().to_owned();
        [held["nonce"].to_string(), "--owner-token".to_owned(), token]
    }

    /// A file with one create.
    fn creates(&self) -> String {
        let file = self.folder.path().join(format!("{}.jsonl", free_port()));
        let create = json!({
            "submitter": account(0), "requestId": "of a batch", "payload": { "to": account(1), "value": "1" },
        });
        std::fs::write(&file, create.to_string()).unwrap();
        file.display().to_string()
    }

    /// A SQLite database that no node uses.
    fn migrated(&self) -> String {
        let file = self.folder.path().join(format!("{}.db", free_port()));
        let url = format!("sqlite:{}", file.display());
        assert_eq!(self.ends(&["migrate", "--database-url", &url]).code, Some(0));
        url
    }

    /// A file of settings with receivers of alerts and events: a chain answers whatever is posted with 200.
    fn receivers(&self) -> String {
        let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
        let (database, url) = (self.migrated(), &self.rpc_url);
        let text = format!(
            "database.url = {database:?}\n\
             [[alerts.sinks]]\nname = \"ops\"\ntype = \"webhook\"\nurl = {url:?}\nsecret = {secret:?}\n\
             [events]\nenabled = true\nmode = \"webhook\"\n\
             [events.webhook]\nurl = {url:?}\nsecret = {secret:?}\nallow_private = true\n"
        );
        let file = self.folder.path().join(format!("{}.toml", free_port()));
        std::fs::write(&file, text).unwrap();
        file.display().to_string()
    }

    /// The id of an API key, and the database that has it.
    fn key(&self) -> [String; 3] {
        let database = self.migrated();
        let new = ["api-key", "new", "--name", "x", "--role", "read", "--quiet"];
        let made = self.ends(&[&new[..], &["--database-url", &database]].concat());
        let id = made.out.split('_').nth(2).unwrap().to_owned();
        [id, "--database-url".to_owned(), database]
    }

    /// A backup of such a database.
    fn backup(&self) -> String {
        let file = self.folder.path().join(format!("{}.backup", free_port())).display().to_string();
        let args = ["backup", "--database-url", &self.migrated(), "--to", &file];
        assert_eq!(self.ends(&args).code, Some(0));
        file
    }

    async fn fill(&self, args: &str) -> Vec<String> {
        let mut filled = Vec::new();
        for word in args.split_whitespace() {
            let file = |name: &str| self.folder.path().join(name).display().to_string();
            if let Some(several) = match word {
                "{key}" => Some(self.key()),
                "{reserved}" => Some(self.reserved()),
                _ => None,
            } {
                filled.extend(several);
                continue;
            }
            let word = match word {
                "{receivers}" => self.receivers(),
                "{node}" => self.url.clone(),
                "{rpc}" => self.rpc_url.clone(),
                "{from}" => account(0),
                "{to}" => account(1),
                "{final}" => self.done.clone(),
                "{pending}" => self.pending().await,
                "{pool}" => self.pool(),
                "{new}" => Address::repeat_byte(0xaa).to_string(),
                "{opened}" => self.opened(),
                "{doubted}" => self.doubted().await,
                "{keys}" => file("keys"),
                "{password}" => file("password"),
                "{folder}" => file(""),
                "{creates}" => self.creates(),
                "{holder}" => account(9),
                "{hash}" => format!("0x{}", "ab".repeat(32)),
                "{file}" => file("tollgate.toml"),
                "{sqlite}" => format!("sqlite:{}", file(&format!("{}.db", free_port()))),
                "{migrated}" => self.migrated(),
                "{copy}" => file(&free_port().to_string()),
                "{backup}" => self.backup(),
                "{postgres}" => self.server.url(&self.server.fresh_database().await),
                word => word.replace("{port}", &free_port().to_string()),
            };
            filled.push(word);
        }
        filled
    }

    async fn try_out(&self, name: &str, row: &Row) {
        let (args, says) = match row {
            Ends(args, says) | Refuses(args, says) => (*args, *says),
            Stays(args, says) | Follows(args, says) => (*args, *says),
        };
        let mut words: Vec<String> = name.split(' ').map(str::to_owned).collect();
        words.extend(self.fill(args).await);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if let Ends(..) | Refuses(..) = row {
            let ran = self.ends(&words);
            let (code, text) = match row {
                Ends(..) => (0, &ran.out),
                _ => (1, &ran.err),
            };
            assert_eq!(ran.code, Some(code), "tollgate {words:?}: {ran:?}");
            assert!(text.contains(says), "tollgate {words:?}: no {says:?} in {ran:?}");
        } else if let Follows(..) = row {
            Program::start(command(&self.binary).args(&words)).line_with(says).await;
        } else {
            let program = Program::start(command(&self.binary).args(&words));
            program.line_with(says).await;
            // A node hears signals once it answers.
            let listen = words.iter().find_map(|word| word.strip_prefix("127.0.0.1:"));
            if let Some(port) = listen.map(|port| port.parse().unwrap()) {
                wait::until("the node to answer", || async {
                    ask(port, "GET", "/livez", "").await.ok()
                })
                .await;
            }
            program.signal("INT");
            let ended = program.end();
            assert_eq!(ended.code, Some(0), "tollgate {words:?}: {ended:?}");
            let panicked = ended.lines.iter().any(|line| line.contains("panicked"));
            assert!(!panicked, "tollgate {words:?}: {ended:?}");
        }
        rpc::call(&self.rpc_url, "devchain_resumeMining", json!([])).await;
        rpc::call(&self.rpc_url, "devchain_setPendingOffset", json!([0])).await;
    }

    /// Runs it to its end; one that reads its input finds a node's answer there.
    fn ends(&self, words: &[&str]) -> Ran {
        if words != ["explain"] {
            return run(&self.binary, words);
        }
        let answer = self.folder.path().join("answer");
        std::fs::write(&answer, "{\"message\": \"nonce too low\"}\n").unwrap();
        Ran::of(command(&self.binary).args(words).stdin(std::fs::File::open(answer).unwrap()))
    }
}

fn account(number: usize) -> String {
    dev_accounts()[number].address.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_help_runs_in_the_shipped_build() {
    let place = Place::new(binary()).await;
    let mut commands: Vec<String> =
        leaves(&place.binary, &[]).iter().map(|command| command.join(" ")).collect();
    commands.sort();
    let rows: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    assert_eq!(commands, rows, "each command of the help has a row here, in this order");
    for (name, runs) in ROWS {
        for row in *runs {
            place.try_out(name, row).await;
        }
    }
}

#[test]
fn help_of_every_command_ends_with_examples_in_the_shipped_build() {
    let binary = binary();
    for command in leaves(&binary, &[]) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        for help in ["-h", "--help"] {
            let ran = run(&binary, &[&words[..], &[help]].concat());
            let (_, examples) = ran.out.split_once("\nExamples:\n").unwrap_or_default();
            assert!(
                examples.contains(&format!("tollgate {}", words.join(" "))),
                "{words:?}: {ran:?}"
            );
        }
    }
}

#[test]
fn shipped_build_refuses_nats_and_otlp_and_says_how_to_build_them() {
    let binary = binary();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tollgate.toml");
    let nats = "[events]\nenabled = true\nmode = \"nats\"\n[events.nats]\nurl = \"nats://h\"\n";
    let otlp = "[traces]\notlp_url = \"http://127.0.0.1:4318\"\n";
    for (settings, feature, setting) in
        [(nats, "nats", "events.mode"), (otlp, "otlp", "traces.otlp_url")]
    {
        std::fs::write(&file, settings).unwrap();
        let refused = run(&binary, &["serve", "--no-auth", "--config", file.to_str().unwrap()]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        let said = format!("cargo build --release -p tollgate-server --features {feature}");
        assert!(refused.err.contains(setting) && refused.err.contains(&said), "{refused:?}");
    }
    let version = run(&binary, &["--version"]).out;
    assert!(version.contains("\nfeatures: none\ntest features: none"), "{version}");
}

#[test]
fn bad_arguments_to_every_command_end_with_2_and_a_message_in_the_shipped_build() {
    let binary = binary();
    for command in leaves(&binary, &[]) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let ran = run(&binary, &[&words[..], &["--no-such-flag"]].concat());
        assert_eq!(ran.code, Some(2), "tollgate {words:?}: {ran:?}");
        assert!(ran.err.contains("--no-such-flag") && ran.out.is_empty(), "{words:?}: {ran:?}");
    }
    for words in [&[][..], &["config"], &["tx"], &["submitter"], &["no-such-command"]] {
        let ran = run(&binary, words);
        assert_eq!(ran.code, Some(2), "tollgate {words:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "tollgate {words:?}: {ran:?}");
    }
}
