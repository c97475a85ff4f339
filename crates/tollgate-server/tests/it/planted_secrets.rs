//! A node with a secret of every kind, through its whole life at the most talkative log level: none of the
//! secrets is in anything that it writes.
//!
//! A new kind of secret belongs into [`Planted`] and into the configuration of [`Ground`]; a new setting that is one is
//! missed by name.

mod ground;
mod planted;

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use rcgen::KeyPair;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_model::access::{KeyId, KeySecret, SECRET_PREFIX};
use tollgate_testkit::postgres::{PgServer, connect};
use tollgate_testkit::wait::until;

use crate::program::{Program, Ran, command, http_get};
use ground::Ground;
use planted::Planted;

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
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let text = exchange(host, &request).await;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap(), text)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_planted_secret_is_in_anything_that_a_node_writes() {
    let tls_key = KeyPair::generate().unwrap();
    let mut planted = Planted::new(&tls_key);
    planted.assert_complete(include_str!("../../../../docs/config.md"));
    let block_interval = Some(Duration::from_millis(200));
    let chain =
        DevChain::start(DevChainOptions { block_interval, ..Default::default() }).await.unwrap();
    let server = PgServer::start_own().await;
    let database = server.url(&server.fresh_database().await);
    let ground = Ground::new(&planted, &tls_key, &chain.url(), &database);
    let [config, chains, nats, retention] =
        ["t.toml", "chains.toml", "nats.toml", "retention.toml"].map(|name| ground.path(name));

    for args in [
        &["config", "check", "--config", &config][..],
        &["config", "check", "--json", "--config", &config],
        &["config", "check", "--config", &config, "--finality", "never"],
        &["config", "check", "--json", "--config", &config, "--finality", "never"],
        &["config", "check", "--config", &chains],
        &["config", "check", "--json", "--config", &chains],
        &["config", "check", "--config", &chains, "--finality", "never"],
        &["config", "check", "--json", "--config", &retention],
        &["config", "check", "--config", &nats],
        &["config", "check", "--config", &nats, "--finality", "never"],
        &["migrate", "--config", &config],
        &["retention", "run", "--config", &config],
        &["alert", "test", "--config", &config],
        &["backup", "--config", &config, "--to", &ground.path("refused")],
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
    let session = log_in(&host, &secret).await;
    planted.0.insert("session cookie", session.cookie.clone());
    planted.0.insert("CSRF token", session.csrf.clone());
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
    // Two of one account: the newest transaction of an account is never archived.
    for from in [&keystore, &file, &inline, &inline] {
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
    let opened = ask("POST", "/api/v1/submitters", r#"{"key":"hd:0"}"#).await;
    assert_eq!(opened.0, 201, "{}", opened.1);
    for path in [
        "/metrics",
        "/api/v1/events",
        "/api/v1/api-keys",
        "/api/v1/chains",
        "/api/v1/submitters",
        "/api/v1/tx?view=operator",
        "/readyz",
        "/openapi.json",
    ] {
        assert_eq!(ask("GET", path, "").await.0, 200, "{path}");
    }
    // Pages: their forms carry the token of the session, and nothing else.
    let account = format!("/submitters/31337/{file}");
    let pause = format!("{account}/pause");
    for path in ["/", "/tx", "/submitters", "/search?q=0", &account, &pause] {
        let cookie = format!("Cookie: tollgate-session={}", session.cookie);
        let (status, text) = request(&host, "GET", path, &cookie, "").await;
        assert!([200, 303].contains(&status), "{path}: {status}");
        planted.assert_absent_but(&["CSRF token"], path, &text);
    }
    let wrong = format!("Cookie: tollgate-session={}", planted.text("CSRF token"));
    for path in ["/", "/api/v1/tx"] {
        let (_, text) = request(&host, "GET", path, &wrong, "").await;
        planted.assert_absent("the answer to a wrong session", &text);
    }
    let mut doctor = vec!["doctor", &file];
    ground.urls.iter().for_each(|url| doctor.extend(["--rpc-url", url]));
    planted.assert_absent("doctor", &ran(&doctor));
    planted.assert_absent("doctor --json", &ran(&[&doctor[..], &["--json"]].concat()));
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
        (body.matches("CONFIRMED").count() >= 4).then_some(())
    };
    until("four final transactions", final_ones).await;
    let archived = async || {
        planted.assert_absent("retention run", &ran(&["retention", "run", "--config", &retention]));
        let archived = archive(&ground.folder.path().join("archive"));
        archived.contains("CONFIRMED").then_some(archived)
    };
    planted.assert_absent("the archive", &until("an archive", archived).await);
    program.line_with("event not taken").await;
    program.line_with("alert not sent").await;

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
    assert_backup_holds_no_secret(&planted, &ground).await;
}

/// The same settings on SQLite: the database, and its backup.
async fn assert_backup_holds_no_secret(planted: &Planted, ground: &Ground) {
    let (config, file, copy) = (ground.path("t.toml"), ground.path("t.db"), ground.path("copy"));
    let database = format!("sqlite:{file}");
    let on_sqlite = ["--config", &config, "--database-url", &database];
    let new = ["api-key", "new", "--quiet", "--name", "ops", "--role", "admin"];
    assert_eq!(Ran::of(command().arg("migrate").args(on_sqlite)).code, Some(0));
    let made = Ran::of(command().args(new).args(on_sqlite));
    let program = Program::start(command().arg("serve").args(on_sqlite).env("RUST_LOG", "trace"));
    until("the API", || http_get(ground.port, "/livez")).await;
    let host = format!("127.0.0.1:{}", ground.port);
    let account = dev_accounts()[1].address.to_string();
    let body = format!(r#"{{"submitter":"{account}","payload":{{"to":"{account}"}}}}"#);
    let bearer = format!("Authorization: Bearer {}", made.out.trim());
    let created = async || {
        let (status, _) = request(&host, "POST", "/api/v1/tx", &bearer, &body).await;
        (status == 202).then_some(())
    };
    until("a create", created).await;
    let backup = ["backup", "--config", &config, "--database-url", &database, "--to", &copy];
    planted.assert_absent("backup", &ran(&backup));
    let bytes = std::fs::read(&copy).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("tx_attempt"), "a copy of the database");
    planted.assert_absent("the copy", &text);
    program.signal("TERM");
    planted.assert_absent("the log on SQLite", &program.end().lines.join("\n"));
}

/// All lines of an archive.
fn archive(folder: &Path) -> String {
    let (mut text, mut folders) = (String::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|end| end == "gz") {
                let file = std::fs::File::open(entry.path()).unwrap();
                MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
            }
        }
    }
    text
}

/// A session of the pages.
struct Session {
    cookie: String,
    csrf: String,
}

/// Logs in with a key, and reads the token that the forms of the session carry.
async fn log_in(host: &str, key: &str) -> Session {
    let body = format!("key={key}&next=%2F");
    let head = format!(
        "POST /login HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let answer = exchange(host, &(head + &body)).await;
    let between = |text: &str, before: &str, after: char| {
        let rest = text.split_once(before).unwrap_or_else(|| panic!("{before}: {text}")).1;
        rest.split(after).next().unwrap().to_owned()
    };
    let cookie = between(&answer, "tollgate-session=", ';');
    let (_, page) =
        request(host, "GET", "/", &format!("Cookie: tollgate-session={cookie}"), "").await;
    Session { csrf: between(&page, "name=\"csrf\" value=\"", '"'), cookie }
}

/// Sends a request and reads to the end of the connection.
async fn exchange(host: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}
