//! The real binary, started well and badly: what an operator sees.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_model::ChainId;
use tollgate_model::port::NodeStore;
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::postgres::PgServer;
use tollgate_testkit::wait::until;

use crate::program::{Program, Ran, command, free_port, http_get, http_post};

const SECRET: &str = "hunter2hunter2";

/// The key of the first account of the dev chain, encrypted with [`SECRET`].
const KEYSTORE: &str = include_str!("../../../tollgate-signer/tests/fixtures/keystore.json");

/// A folder with a key, and a node's flags that are all right.
pub(crate) struct Ground {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("keys"), dev_key(0)).unwrap();
        Self { folder, port: free_port() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub(crate) fn database_url(&self) -> String {
        format!("sqlite:{}", self.path("t.db"))
    }

    /// `serve` with flags that are all right, but for those that `other` gives.
    pub(crate) fn serve(&self, rpc_url: &str, other: &[&str]) -> Command {
        let (listen, keys) = (format!("127.0.0.1:{}", self.port), self.path("keys"));
        let database = self.database_url();
        let good = [
            ["--listen", &listen],
            ["--private-key-file", &keys],
            ["--database-url", &database],
            ["--rpc-url", rpc_url],
        ];
        let mut serve = command();
        serve.arg("serve").arg("--no-auth").env("RUST_LOG", "error");
        for [flag, value] in good.iter().filter(|[flag, _]| !other.contains(flag)) {
            serve.args([flag, value]);
        }
        serve.args(other).env("TOLLGATE_STARTUP_WAIT", "0s");
        serve
    }

    /// Starts a node and waits until its API answers.
    pub(crate) async fn started(&self, serve: &mut Command) -> Program {
        let program = Program::start(serve);
        until("the API", || http_get(self.port, "/livez")).await;
        program
    }

    /// The lines of a refusal to start.
    pub(crate) fn refusal(&self, rpc_url: &str, other: &[&str]) -> Vec<String> {
        refusal(&mut self.serve(rpc_url, other))
    }
}

fn refusal(command: &mut Command) -> Vec<String> {
    let ran = Ran::of(command.stdin(Stdio::null()));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(!ran.err.contains(SECRET) && !ran.out.contains(SECRET), "{ran:?}");
    ran.err.lines().map(str::to_owned).collect()
}

fn dev_key(index: usize) -> String {
    dev_accounts()[index].private_key.to_string()
}

pub(crate) async fn chain() -> tollgate_devchain::RunningDevChain {
    let block_interval = Some(Duration::from_millis(100));
    DevChain::start(DevChainOptions { block_interval, ..Default::default() }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn start_with_a_bad_database_fails_with_one_line() {
    let (ground, chain) = (Ground::new(), chain().await);
    let url = format!("mysql://me:{SECRET}@db/t");
    assert_eq!(
        ground.refusal(&chain.url(), &["--database-url", &url]),
        ["tollgate: --database-url: must be postgres://… or sqlite:PATH"]
    );
    let url = format!("postgres://me:{SECRET}@127.0.0.1:1/t");
    assert_eq!(
        ground.refusal(&chain.url(), &["--database-url", &url]),
        ["tollgate: database postgres://***@127.0.0.1:1/t: can't be reached or opened: error \
          connecting to server: Connection refused (os error 111)"]
    );
    let told = ground.refusal(&chain.url(), &["--database-url", "sqlite:/nowhere/at/all.db"]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("tollgate: database sqlite:/nowhere/at/all.db: can't be"),
        "{told:?}"
    );
    let server = PgServer::start().await;
    let told = ground.refusal(&chain.url(), &["--database-url", &server.url("no_such_one")]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("database \"no_such_one\" does not exist (3D000)"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn start_with_a_bad_chain_fails_with_one_line() {
    let (ground, chain) = (Ground::new(), chain().await);
    assert_eq!(
        ground.refusal(&format!("http://127.0.0.1:1/{SECRET}"), &[]),
        ["tollgate: no endpoint of the chain answers: http://127.0.0.1:1: Connection refused (os \
          error 111)"]
    );
    let config = ground.path("tollgate.toml");
    std::fs::write(&config, "[chain]\nid = 1\n").unwrap();
    assert_eq!(
        ground.refusal(&chain.url(), &["--config", &config]),
        [format!(
            "tollgate: {config}:2:6: chain.id is 1, but {} is on chain 31337",
            chain.url().trim_end_matches('/')
        )]
    );
}

/// A dev chain with a genesis block of its own, and its URL.
async fn new_dev_chain() -> (Program, String) {
    let program = Program::start(command().args(["devchain", "--port", "0"]));
    let line = program.line_with("JSON-RPC").await;
    let url = line.split_whitespace().nth(1).unwrap().to_owned();
    (program, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoint_with_another_genesis_than_the_databases_is_refused_unless_another_has_it() {
    let ground = Ground::new();
    let (_first, first_url) = new_dev_chain().await;
    let node = Program::start(ground.serve(&first_url, &[]).env("RUST_LOG", "info"));
    let migrated = node.line_with("schema").await;
    assert!(migrated.contains("schema migrated") && !migrated.contains("applied=0"), "{migrated}");
    until("the API", || http_get(ground.port, "/livez")).await;
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
    let (_second, url) = new_dev_chain().await;
    let told = ground.refusal(&url, &[]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("this database was made for another chain of id 31337"), "{told:?}");
    assert!(told[0].contains("check the URLs of the endpoints"), "{told:?}");

    // An endpoint of the database's chain beside it is enough.
    let both = ["--rpc-url", &url, "--rpc-url", &first_url];
    let node = ground.started(&mut ground.serve(&url, &both)).await;
    let chains = http_get(ground.port, "/api/v1/chains").await.unwrap();
    assert!(chains.contains("\"good\"") && chains.contains("has the genesis block"), "{chains}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_one_line_and_nothing_is_begun() {
    let (ground, chain) = (Ground::new(), chain().await);
    let _taken = TcpListener::bind(("127.0.0.1", ground.port)).await.unwrap();
    assert_eq!(
        ground.refusal(&chain.url(), &[]),
        [format!(
            "tollgate: can't listen on 127.0.0.1:{}: another program listens there already",
            ground.port
        )]
    );
    assert!(!Path::new(&ground.path("t.db")).exists());
}

#[test]
fn start_with_a_bad_key_file_names_the_line() {
    let ground = Ground::new();
    let refusal = |file: &str, text: &str| {
        let path = ground.path(file);
        std::fs::write(&path, text).unwrap();
        let told = ground.refusal("http://127.0.0.1:1", &["--private-key-file", &path]);
        told.into_iter().map(|line| line.replace(&path, file)).collect::<Vec<_>>()
    };
    let missing = ground.path("missing");
    assert_eq!(
        ground.refusal("http://127.0.0.1:1", &["--private-key-file", &missing]),
        [format!("tollgate: --private-key-file: {missing}: there is no such file or folder")]
    );
    assert_eq!(
        refusal("bad", &format!("# ours\n{SECRET}\n\n{}\n0x00\n", dev_key(1))),
        [
            "tollgate: bad:2:1: must be 64 hex digits, with or without 0x",
            "tollgate: bad:5:1: must be 64 hex digits, with or without 0x",
        ]
    );
    assert_eq!(
        refusal("none", "# nothing\n"),
        ["tollgate: --private-key-file: none: there are no keys in it"]
    );
    let account = dev_accounts()[1].address;
    assert_eq!(
        refusal("twice", &format!("{}\n{}\n", dev_key(1), dev_key(1))),
        [format!("tollgate: twice:2:1: the same key as at twice:1:1 ({account})")]
    );
    let mut serve = ground.serve("http://127.0.0.1:1", &[]);
    serve.env("TOLLGATE_PRIVATE_KEYS", format!("{},{SECRET}", dev_key(2)));
    let told = refusal_of(&mut serve);
    assert_eq!(
        told,
        "tollgate: TOLLGATE_PRIVATE_KEYS: key 2: must be 64 hex digits, with or without 0x"
    );
}

fn refusal_of(command: &mut Command) -> String {
    refusal(command).join("\n")
}

#[test]
fn a_keystore_needs_its_password_and_no_key_of_it_twice() {
    let ground = Ground::new();
    let folder = ground.path("keystore");
    std::fs::create_dir(&folder).unwrap();
    let file = format!("{folder}/key.json");
    std::fs::write(&file, KEYSTORE).unwrap();
    let password = ground.path("password");
    std::fs::write(&password, "something else").unwrap();
    let flags = ["--keystore", &folder, "--keystore-password-file", &password];
    assert_eq!(
        ground.refusal("http://127.0.0.1:1", &flags),
        [format!("tollgate: --keystore: {file}: wrong password, or a damaged file")]
    );
    std::fs::write(&password, format!("{SECRET}\n")).unwrap();
    let told = ground.refusal("http://127.0.0.1:1", &flags);
    let keys = ground.path("keys");
    assert_eq!(
        told,
        [format!(
            "tollgate: --keystore: {folder}: has a key that {keys}:1:1 gives too ({})",
            dev_accounts()[0].address
        )]
    );
    assert_eq!(
        ground.refusal("http://127.0.0.1:1", &["--keystore", &folder]),
        ["tollgate: --keystore: needs a password: give --keystore-password-file or \
          TOLLGATE_KEYSTORE_PASSWORD"]
    );
}

#[test]
fn binary_with_test_features_shows_them_and_refuses_to_serve() {
    let version = command().arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    assert!(version.contains("\nfeatures: nats, otlp"), "{version}");
    assert!(version.contains("\ntest features: failpoints"), "{version}");
    let ground = Ground::new();
    let mut serve = ground.serve("http://127.0.0.1:1", &[]);
    serve.env_remove("TOLLGATE_ALLOW_TEST_FEATURES");
    let said = refusal_of(&mut serve);
    assert!(
        said.starts_with("tollgate: this binary was built with test features (failpoints"),
        "{said}"
    );
}

#[test]
fn without_keys_for_its_callers_it_does_not_serve() {
    let folder = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", folder.path().join("tollgate.db").display());
    let mut serve = command();
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--rpc-url", "http://127.0.0.1:1"])
        .args(["--database-url", &database])
        .env("RUST_LOG", "error")
        .env("TOLLGATE_PRIVATE_KEYS", dev_key(0));
    let said = refusal_of(&mut serve);
    assert!(said.contains("no usable API key is in the database"), "{said}");
    assert!(said.contains("tollgate api-key new --name NAME --role admin"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn node_with_one_endpoint_that_answers_starts_and_is_listed_until_it_stops() {
    let (ground, chain) = (Ground::new(), chain().await);
    let other = [
        "--rpc-url",
        "http://127.0.0.1:1",
        "--rpc-url",
        &chain.url(),
        "--advertise-url",
        "http://node-1.internal:8550/",
        "--node-name",
        "node-1",
    ];
    let program = Program::start(&mut ground.serve(&chain.url(), &other));
    let live = until("the API", || http_get(ground.port, "/livez")).await;
    assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    let store = SqliteStore::open(SqliteOptions::file(ground.path("t.db"))).await.unwrap();
    let nodes =
        store.live_nodes(ChainId::new(31_337).unwrap(), Duration::from_secs(60)).await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].advertise_url.as_str(), "http://node-1.internal:8550");
    assert!(nodes[0].node.as_str().starts_with("node-1/") && !nodes[0].draining);
    program.signal("TERM");
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(
        store.live_nodes(ChainId::new(31_337).unwrap(), Duration::from_secs(60)).await.unwrap(),
        []
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn start_with_another_mode_keeps_the_accounts_mode_and_says_how_to_change_it() {
    let (ground, chain) = (Ground::new(), chain().await);
    let account = dev_accounts()[0].address;
    let shown = || http_get(ground.port, "/api/v1/submitters?limit=1");
    for (mode, warned) in [("strict", false), ("pipelined", true), ("strict", false)] {
        let mut serve = ground.serve(&chain.url(), &["--mode", mode]);
        let program = Program::start(serve.env("RUST_LOG", "warn"));
        let page = until("the submitters", shown).await;
        assert!(page.contains("\"mode\":\"strict\""), "started with {mode}: {page}");
        program.signal("TERM");
        let ended = program.end();
        let how = format!("tollgate submitter mode {account} {mode} --reason");
        let told = ended.lines.iter().any(|line| line.contains(&how));
        assert_eq!(told, warned, "{mode}: {ended:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_transaction_offers_more_than_the_chains_cap() {
    const CAP: u64 = 1_100_000_001;
    let (ground, chain) = (Ground::new(), chain().await);
    let mut serve = ground.serve(&chain.url(), &[]);
    let program =
        ground.started(serve.env("TOLLGATE_CHAIN_MAX_FEE_PER_GAS", CAP.to_string())).await;
    let [from, to] = [0, 1].map(|account| dev_accounts()[account].address.to_string());
    let create = json!({"submitter": from, "requestId": "a", "payload": {"to": to, "value": "1"}});
    let body = create.to_string();
    let post = async || http_post(ground.port, "/api/v1/tx", &body).await;
    let made = until("the create", || async { post().await.filter(|a| a.contains(" 20")) }).await;
    assert!(made.contains("txId"), "{made}");
    let block = |number: u64| {
        let params = json!([format!("{number:#x}"), true]);
        chain.view().call("eth_getBlockByNumber", &params).ok().filter(|block| !block.is_null())
    };
    let mined = || async {
        let blocks = (0..).map_while(block);
        blocks.into_iter().find_map(|block| block["transactions"].get(0).cloned())
    };
    let mined = until("a block with it", mined).await;
    assert_eq!(mined["maxFeePerGas"], format!("{CAP:#x}"), "{mined}");
    program.signal("TERM");
    assert_eq!(program.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_that_comes_later_is_waited_for() {
    let ground = Ground::new();
    let chain_port = free_port();
    let url = format!("http://127.0.0.1:{chain_port}");
    let mut serve = ground.serve(&url, &[]);
    serve.env("TOLLGATE_STARTUP_WAIT", "60s").env("RUST_LOG", "warn");
    let program = Program::start(&mut serve);
    program.line_with("the chain does not answer yet").await;
    let options = DevChainOptions { port: chain_port, ..Default::default() };
    let _chain = DevChain::start(options).await.unwrap();
    until("the API", || http_get(ground.port, "/livez")).await;
    program.signal("INT");
    assert_eq!(program.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn start_does_not_wait_for_a_known_account_that_a_stopped_node_still_locks() {
    let (ground, chain, server) = (Ground::new(), chain().await, PgServer::start().await);
    let database = server.url(&server.fresh_database().await);
    let serve = || ground.serve(&chain.url(), &["--database-url", &database]);
    let first = ground.started(&mut serve()).await;
    first.signal("KILL");
    first.end();
    // What a node leaves behind for a while that was stopped in the middle of a batch.
    let (client, connection) =
        tokio_postgres::connect(&database, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin; select 1 from submitter_cursor for update").await.unwrap();
    let program = ground.started(&mut serve()).await;
    client.batch_execute("rollback").await.unwrap();
    program.signal("TERM");
    assert_eq!(program.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn accounts_can_be_strict_while_others_are_not() {
    let (ground, chain) = (Ground::new(), chain().await);
    let strict = dev_accounts()[0].address.to_string();
    let mut serve = ground.serve(&chain.url(), &["--mode", "pipelined"]);
    std::fs::write(ground.path("keys"), [dev_key(0), dev_key(1)].join("\n")).unwrap();
    serve.env("TOLLGATE_SUBMITTER_STRICT", &strict);
    let _program = Program::start(&mut serve);
    let list = until("the API", || http_get(ground.port, "/api/v1/submitters")).await;
    let shown: Value = serde_json::from_str(list.split_once("\r\n\r\n").unwrap().1).unwrap();
    for item in shown["items"].as_array().unwrap() {
        let is_strict = item["address"].as_str().unwrap().eq_ignore_ascii_case(&strict);
        let (mode, window) = if is_strict { ("strict", 1) } else { ("pipelined", 64) };
        assert_eq!((item["mode"].as_str(), item["window"].as_u64()), (Some(mode), Some(window)));
    }
    assert_eq!(shown["items"].as_array().unwrap().len(), 2, "{shown}");
}

#[test]
fn a_check_says_what_is_in_force_and_where_it_is_from() {
    let ground = Ground::new();
    let config = ground.path("tollgate.toml");
    let keys = ground.path("keys");
    let text = format!(
        "node_name = \"one\"\n[database]\nurl = \"postgres://me:{SECRET}@db/t\"\n[chain]\nrpc_urls = \
         [\"https://rpc.example.com/{SECRET}\"]\n[keys]\nprivate_key_files = [\"{keys}\"]\n"
    );
    std::fs::write(&config, text).unwrap();
    let check = |more: &[&str]| {
        let mut check = command();
        check.args(["config", "check", "--config", &config, "--window", "7"]).args(more);
        check.env("TOLLGATE_NO_AUTH", "true");
        let output = check.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains(SECRET), "{text}");
        (output.status.code(), text)
    };
    let (code, table) = check(&[]);
    assert_eq!(code, Some(0), "{table}");
    let has = |words: &[&str]| {
        let fits = |line: &str| line.split_whitespace().collect::<Vec<_>>() == words;
        assert!(table.lines().any(fits), "{words:?} is not in\n{table}");
    };
    has(&["node_name", "one", &format!("{config}:1:13")]);
    has(&["database.url", "postgres://***@db/t", &format!("{config}:3:7")]);
    has(&["no_auth", "true", "TOLLGATE_NO_AUTH"]);
    has(&["submitter.window", "7", "--window"]);
    has(&["lease.duration", "10s", "default"]);
    let (code, json) = check(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["ok"]), (Some(0), &true.into()));
    let (code, json) = check(&["--json", "--mode", "fast"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (code, &json["ok"], json["problems"].as_array().unwrap().len()),
        (Some(1), &false.into(), 1)
    );
    assert_eq!(json["problems"][0]["place"], "--mode");
}
