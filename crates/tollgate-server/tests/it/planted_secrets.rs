//! A node with a secret of every kind, through its whole life at the most talkative log level: none of the
//! secrets is in anything that it writes.
//!
//! A new kind of secret belongs into [`Planted::new`] and into the configuration of [`Ground::new`].

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_model::access::{KeyId, KeySecret, SECRET_PREFIX};
use tollgate_testkit::postgres::{PgServer, connect};
use tollgate_testkit::wait::until;

use crate::program::{Program, Ran, command, free_port, http_get};

const KEYSTORE: &str = include_str!("../../../tollgate-signer/tests/fixtures/keystore.json");
const KEYSTORE_PASSWORD: &str = "hunter2hunter2";
const HOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// The secrets of a node: what each is, and its text.
struct Planted(BTreeMap<&'static str, String>);

impl Planted {
    fn new() -> Self {
        let key = |index: usize| dev_accounts()[index].private_key.to_string();
        Self(BTreeMap::from([
            ("private key in a file", key(1)),
            ("private key in the settings, without 0x", key(2).trim_start_matches("0x").to_owned()),
            ("private key of the keystore", key(0)),
            ("keystore password", KEYSTORE_PASSWORD.to_owned()),
            ("database password", "pa55/wörd%of?the&database".to_owned()),
            ("RPC key in the path", "path-key-0f1e2d3c4b5a69788796".to_owned()),
            ("RPC key in the query", "query+key/2b7e151628aed2a6".to_owned()),
            ("RPC password", "rpc:password/0123456789".to_owned()),
            ("RPC key of a WebSocket", "socket-key-9f8e7d6c5b4a3928".to_owned()),
            ("hook secret", HOOK_SECRET.trim_start_matches("whsec_").to_owned()),
            ("hook key in the path", "hook-path-7f6e5d4c3b2a1908".to_owned()),
        ]))
    }

    fn text(&self, what: &str) -> &str {
        &self.0[what]
    }

    fn escaped(&self, what: &str) -> String {
        escaped(self.text(what))
    }

    /// Forms that each secret may have, in any letter case where that does not matter.
    fn forms(&self) -> Vec<(String, String)> {
        let mut forms = Vec::new();
        for (what, secret) in &self.0 {
            let bare = secret.trim_start_matches("0x");
            forms.push((format!("{what}, as it is"), bare.to_owned()));
            forms.push((format!("{what}, in capitals"), bare.to_uppercase()));
            forms.push((format!("{what}, escaped"), escaped(bare)));
            let bytes = match from_hex(bare) {
                Some(bytes) => bytes,
                None => bare.as_bytes().to_vec(),
            };
            let list: Vec<String> = bytes.iter().take(12).map(u8::to_string).collect();
            forms.push((format!("{what}, as a list"), list.join(", ")));
            for bytes in [&bytes[..], secret.as_bytes()] {
                forms.push((format!("{what}, in hex"), hex(bytes)));
                // The part of each alignment that does not depend on what stands around it.
                for shift in 0..3 {
                    let text = base64(&[&vec![0; shift][..], bytes].concat());
                    let end = (shift + bytes.len()) / 3 * 4;
                    let core = text[usize::from(shift > 0) * 4..end].to_owned();
                    forms.push((
                        format!("{what}, in base64"),
                        core.replace('+', "-").replace('/', "_"),
                    ));
                    forms.push((format!("{what}, in base64"), core));
                }
            }
        }
        forms
    }

    /// Fails if one of the secrets is in a text, and names the place.
    fn assert_absent(&self, place: &str, text: &str) {
        for (what, form) in self.forms() {
            assert!(form.len() >= 12, "{what} is too short to be looked for");
            if let Some(at) = text.find(&form) {
                let from = text[..at].rfind('\n').map_or(0, |line| line + 1);
                let line: String = text[from..].lines().next().unwrap_or_default().into();
                panic!("{place} holds the {what}: {line}");
            }
        }
    }
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_hex.then(|| (0..64).step_by(2).map(byte).collect()).flatten()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let get = |place: usize| u32::from(three.get(place).copied().unwrap_or_default());
        let number = get(0) << 16 | get(1) << 8 | get(2);
        for place in 0..4 {
            text.push(char::from(LETTERS[(number >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

/// An RPC endpoint that answers every request with an error that repeats the whole request, headers
/// included, as some proxies do.
fn start_echo() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = vec![0; 4_096];
            let read = stream.read(&mut request).unwrap_or_default();
            let told =
                String::from_utf8_lossy(&request[..read]).replace(['\r', '\n', '"', '\\'], " ");
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32000,"message":"{told}"}}}}"#
            );
            let head = format!(
                "HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                body.len()
            );
            // The node may be gone.
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    port
}

/// The files of a node and its configuration.
struct Ground {
    folder: tempfile::TempDir,
    port: u16,
}

impl Ground {
    fn new(planted: &Planted, chain_url: &str, database: &str) -> Self {
        let ground = Self { folder: tempfile::tempdir().unwrap(), port: free_port() };
        let write = |name: &str, text: &str| {
            let path = ground.folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path.display().to_string()
        };
        let key_file = write("key", planted.text("private key in a file"));
        let keystore = write("keystore/key.json", KEYSTORE);
        let keystore = Path::new(&keystore).parent().unwrap().display().to_string();
        let password = write("password", KEYSTORE_PASSWORD);
        let hook_secret = write("hook", HOOK_SECRET);
        let rpc = |place: &str| {
            format!(
                "http://operator:{}@{place}?apikey={}",
                planted.escaped("RPC password"),
                planted.escaped("RPC key in the query"),
            )
        };
        let path = planted.escaped("RPC key in the path");
        let host = chain_url.trim_start_matches("http://");
        let urls = [
            rpc(&format!("{host}/")),
            format!("{}&second", rpc(&format!("{host}/"))),
            rpc(&format!("127.0.0.1:{}/v3/{path}", start_echo())),
            rpc(&format!("127.0.0.1:1/v3/{path}")),
            format!("ws://127.0.0.1:1/ws/{}", planted.escaped("RPC key of a WebSocket")),
        ];
        let database = database.replacen(
            "postgres@",
            &format!("postgres:{}@", planted.escaped("database password")),
            1,
        );
        assert!(database.contains(&planted.escaped("database password")), "{database}");
        let config = format!(
            "listen = \"127.0.0.1:{}\"\n[database]\nurl = \"{database}\"\n[chain]\nrpc_urls = {urls:?}\n\
             [keys]\nprivate_keys = [\"{}\"]\nprivate_key_files = [\"{key_file}\"]\nkeystore = \"{keystore}\"\n\
             keystore_password_file = \"{password}\"\n[stuck.hook]\nurl = \"http://127.0.0.1:1/{}\"\n\
             secret_file = \"{hook_secret}\"\n",
            ground.port,
            planted.text("private key in the settings, without 0x"),
            planted.text("hook key in the path"),
        );
        write("t.toml", &config);
        ground
    }

    fn config(&self) -> String {
        self.folder.path().join("t.toml").display().to_string()
    }
}

fn ran(args: &[&str]) -> String {
    let ran = Ran::of(command().args(args).env("RUST_LOG", "trace").stdin(Stdio::null()));
    ran.out + &ran.err
}

/// All rows of all tables, as JSON.
async fn dump(url: &str) -> String {
    let client = connect(url).await.unwrap();
    let tables = "select quote_ident(schemaname) || '.' || quote_ident(tablename) from pg_tables \
                  where schemaname not in ('pg_catalog', 'information_schema')";
    let mut text = String::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let rows = format!("select row_to_json(t)::text from {table} t");
        for row in client.query(&rows, &[]).await.unwrap() {
            text += &row.get::<_, String>(0);
            text.push('\n');
        }
    }
    text
}

/// Asks with one more header; returns the status, and the head and the body as text.
async fn request(host: &str, method: &str, path: &str, header: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_planted_secret_is_in_anything_that_a_node_writes() {
    let mut planted = Planted::new();
    let block_interval = Some(Duration::from_millis(200));
    let chain =
        DevChain::start(DevChainOptions { block_interval, ..Default::default() }).await.unwrap();
    let server = PgServer::start_own().await;
    let database = server.url(&server.fresh_database().await);
    let ground = Ground::new(&planted, &chain.url(), &database);
    let config = ground.config();

    for args in [
        &["config", "check", "--config", &config][..],
        &["config", "check", "--json", "--config", &config],
        &["config", "check", "--config", &config, "--finality", "never"],
        &["config", "check", "--json", "--config", &config, "--finality", "never"],
        &["migrate", "--config", &config],
        &["retention", "run", "--config", &config],
    ] {
        let text = ran(args);
        assert!(!text.is_empty(), "{args:?}");
        planted.assert_absent(&args.join(" "), &text);
    }

    let new = ["api-key", "new", "--config", &config, "--name", "ops", "--role", "admin"];
    let made = Ran::of(command().args(new).env("RUST_LOG", "trace").stdin(Stdio::null()));
    let secret = made.out.trim().to_owned();
    let unknown = KeySecret::from_random(KeyId::from_random([7; 12]), [91; 32]);
    let unknown = unknown.reveal().to_owned();
    planted.0.insert("API key", secret[SECRET_PREFIX.len() + 13..].to_owned());
    planted.0.insert("unknown API key", unknown[SECRET_PREFIX.len() + 13..].to_owned());
    planted.assert_absent("what api-key new logs", &made.err);
    planted.assert_absent("api-key list", &ran(&["api-key", "list", "--config", &config]));

    let mut program = command();
    program
        .args(["serve", "--config", &config])
        .env("RUST_LOG", "trace")
        .env("RUST_BACKTRACE", "full");
    let program = Program::start(&mut program);
    until("the API", || http_get(ground.port, "/livez")).await;
    let host = format!("127.0.0.1:{}", ground.port);
    let ask = async |method: &str, path: &str, body: &str| {
        let bearer = format!("Authorization: Bearer {secret}");
        let (status, text) = request(&host, method, path, &bearer, body).await;
        planted.assert_absent(&format!("{method} {path}"), &text);
        (status, text)
    };
    let [keystore, file, inline] = [0, 1, 2].map(|index| dev_accounts()[index].address.to_string());
    until("a node that is ready", async || {
        (ask("GET", "/readyz", "").await.0 == 200).then_some(())
    })
    .await;
    for from in [&keystore, &file, &inline] {
        let body = format!(r#"{{"submitter":"{from}","payload":{{"to":"{file}","value":"1"}}}}"#);
        until("a create", async || (ask("POST", "/api/v1/tx", &body).await.0 == 202).then_some(()))
            .await;
    }
    // Refused requests, one of them with a key in the wrong place.
    let key = planted.text("private key in a file");
    let bodies = [
        format!(r#"{{"submitter":"{key}","payload":{{"to":"{file}"}}}}"#),
        format!(r#"{{"submitter":"{file}","payload":{{"to":"{file}","{key}":1}}}}"#),
        format!(r#"{{"submitter":"{file}","rawTx":"{key}"}}"#),
        format!(r#"{{"submitter":"{file}","speed":"{key}","payload":{{"to":"{file}"}}}}"#),
        "{".to_owned(),
    ];
    for body in &bodies {
        assert!((400..500).contains(&ask("POST", "/api/v1/tx", body).await.0), "{body}");
    }
    for path in [
        "/api/v1/chains",
        "/api/v1/submitters",
        "/api/v1/tx?view=operator",
        "/readyz",
        "/openapi.json",
    ] {
        assert_eq!(ask("GET", path, "").await.0, 200, "{path}");
    }
    // Keys that are wrong, or in a wrong place.
    for (header, path) in [
        (format!("Authorization: Bearer {unknown}"), "/api/v1/tx".to_owned()),
        (format!("Authorization: Bearer {secret}0"), "/api/v1/tx".to_owned()),
        (format!("Authorization: Basic {secret}"), "/api/v1/tx".to_owned()),
        (format!("Authorization: {secret}"), "/api/v1/tx".to_owned()),
        (format!("X-Api-Key: {secret}"), "/api/v1/tx".to_owned()),
        (format!("Cookie: key={secret}"), "/api/v1/tx".to_owned()),
        (format!("Tollgate-Caller: {secret}"), "/api/v1/tx".to_owned()),
        (format!("X-Request-Id: {secret}"), "/api/v1/tx".to_owned()),
        ("X-Nothing: 1".to_owned(), format!("/api/v1/tx?apiKey={secret}")),
        ("X-Nothing: 1".to_owned(), format!("/api/v1/tx/{secret}")),
        (format!("Authorization: Bearer {secret}"), format!("/api/v1/tx?{secret}=1")),
        (format!("Authorization: Bearer {secret}"), format!("/api/v1/tx?cursor={secret}")),
        (format!("Authorization: Bearer {secret}"), format!("/api/v1/tx/{secret}")),
        (format!("Authorization: Bearer {secret}"), format!("/api/v1/submitters/{secret}")),
        (format!("Authorization: Bearer {secret}"), format!("/{secret}")),
    ] {
        let (status, text) = request(&host, "GET", &path, &header, "").await;
        assert!((400..500).contains(&status), "{header} {path}: {status}");
        planted.assert_absent("the answer to a wrong key", &text);
    }
    for body in [
        format!(r#"{{"submitter":"{secret}","payload":{{"to":"{file}"}}}}"#),
        format!(r#"{{"submitter":"{file}","{secret}":1}}"#),
    ] {
        assert!((400..500).contains(&ask("POST", "/api/v1/tx", &body).await.0), "{body}");
    }
    let final_ones = async || {
        let (_, body) = ask("GET", "/api/v1/tx/completions", "").await;
        (body.matches("CONFIRMED").count() >= 3).then_some(())
    };
    until("three final transactions", final_ones).await;

    server.crash();
    let down = async || (ask("GET", "/api/v1/tx", "").await.0 >= 500).then_some(());
    until("an answer without a database", down).await;
    ask("POST", "/api/v1/tx", &bodies[0]).await;
    server.restart().await;
    let up = async || (ask("GET", "/api/v1/tx", "").await.0 == 200).then_some(());
    until("an answer with the database", up).await;
    planted.assert_absent("the database", &dump(&database).await);

    program.signal("TERM");
    let lines = program.end().lines;
    assert!(lines.iter().any(|line| line.contains("TRACE")), "the log is at its most talkative");
    planted.assert_absent("the log", &lines.join("\n"));
}

#[test]
fn planted_secret_is_found_in_each_of_its_forms() {
    let planted = Planted::new();
    let key = planted.text("private key in a file");
    let bytes = from_hex(key.trim_start_matches("0x")).unwrap();
    let password = planted.text("RPC password");
    for text in [
        key.to_owned(),
        key.trim_start_matches("0x").to_uppercase(),
        format!("Authorization: Basic {}", base64(format!("operator:{password}").as_bytes())),
        format!("x{}", base64(&bytes)),
        format!("{bytes:?}"),
        format!("http://operator:{}@a", escaped(password)),
        hex(password.as_bytes()),
    ] {
        let found = std::panic::catch_unwind(|| Planted::new().assert_absent("a text", &text));
        assert!(found.is_err(), "{text}");
    }
    planted.assert_absent("a text", "nothing of the kind");
}
