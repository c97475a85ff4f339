//! TLS to a server that refuses connections without it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tollgate_model::port::StoreError;
use tollgate_postgres::{PgOptions, PgStore, migrate};
use tollgate_testkit::{PgServer, postgres};

const PASSWORD: &str = "correct horse";

/// A certificate and its key, in PEM.
struct Identity {
    certificate: String,
    key: String,
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn identity(issuer: &CertifiedIssuer<'_, KeyPair>, name: &str) -> Identity {
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().pem();
    Identity { certificate, key: key.serialize_pem() }
}

/// Has the server write a file into its data directory, as its own user.
async fn write_file(client: &postgres::Client, name: &str, content: &str) {
    let content = BASE64_STANDARD.encode(content);
    let program = format!("base64 -d > {name} && chmod 600 {name}");
    let copy = format!("copy (select '{content}') to program '{program}'");
    client.batch_execute(&copy).await.unwrap();
}

/// A server that takes `scram` with a password and `certified` with a certificate, both with TLS only.
async fn insisting_server(
    issuer: &CertifiedIssuer<'_, KeyPair>,
    host: &str,
) -> (PgServer, String, postgres::Client) {
    let server = PgServer::start_own().await;
    let database = server.fresh_database().await;
    let client = postgres::connect(&server.url(&database)).await.unwrap();
    let own = identity(issuer, host);
    write_file(&client, "server.crt", &own.certificate).await;
    write_file(&client, "server.key", &own.key).await;
    write_file(&client, "root.crt", &issuer.pem()).await;
    let access = "hostssl all scram     127.0.0.1/32 scram-sha-256\n\
                  hostssl all certified 127.0.0.1/32 cert\n\
                  host    all postgres  127.0.0.1/32 trust\n";
    write_file(&client, "pg_hba.conf", access).await;
    client
        .batch_execute(&format!(
            "set password_encryption = 'scram-sha-256';
             create role scram login password '{PASSWORD}'; create role certified login;
             grant all on schema public to scram, certified;"
        ))
        .await
        .unwrap();
    for setting in ["ssl = on", "ssl_ca_file = 'root.crt'"] {
        client.batch_execute(&format!("alter system set {setting}")).await.unwrap();
    }
    server.shut_down();
    server.restart().await;
    let url = server.url(&database);
    let client = postgres::connect(&url).await.unwrap();
    (server, url, client)
}

async fn open(url: String) -> Result<PgStore, StoreError> {
    let options = PgOptions::new(url);
    migrate(&options).await?;
    PgStore::open(options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn server_that_insists_on_tls_is_used_as_each_sslmode_demands() {
    let (issuer, stranger) = (authority("known"), authority("stranger"));
    let (_server, url, admin) = insisting_server(&issuer, "127.0.0.1").await;
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("ca.pem"), issuer.pem()).unwrap();
    std::fs::write(path("stranger.pem"), stranger.pem()).unwrap();
    let (ca, other) = (path("ca.pem"), path("stranger.pem"));
    let password = PASSWORD.replace(' ', "%20");
    let scram = url.replace("postgres@", &format!("scram:{password}@"));
    for (parameters, refused) in [
        ("sslmode=disable".to_owned(), Some("no encryption")),
        (String::new(), None),
        ("sslmode=prefer".to_owned(), None),
        ("sslmode=require".to_owned(), None),
        (format!("sslmode=require&sslrootcert={other}"), Some("UnknownIssuer")),
        (format!("sslmode=verify-ca&sslrootcert={ca}"), None),
        (format!("sslmode=verify-ca&sslrootcert={other}"), Some("UnknownIssuer")),
        (format!("sslmode=verify-full&sslrootcert={ca}"), None),
        ("sslmode=verify-full&sslrootcert=system".to_owned(), Some("certificate")),
    ] {
        let opened = open(format!("{scram}?{parameters}")).await;
        match (opened, refused) {
            (Ok(store), None) => {
                let encrypted = "select count(*) filter (where ssl), count(*) from pg_stat_ssl
                                   join pg_stat_activity using (pid)
                                  where application_name = 'tollgate' and usename = 'scram'";
                let row = admin.query_one(encrypted, &[]).await.unwrap();
                let (with_tls, all): (i64, i64) = (row.get(0), row.get(1));
                assert!(all > 0 && with_tls == all, "{parameters}: {with_tls} of {all}");
                drop(store);
            }
            (Err(error), Some(said)) => {
                assert!(error.to_string().contains(said), "{parameters}: {error}");
                assert!(!error.to_string().contains("correct"), "{parameters}: {error}");
            }
            (opened, _) => panic!("{parameters}: {:?}", opened.err()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn client_certificate_is_presented_and_a_wrong_host_name_is_refused() {
    let issuer = authority("known");
    let (_server, url, _admin) = insisting_server(&issuer, "db.internal").await;
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    let own = identity(&issuer, "certified");
    for (name, text) in
        [("ca.pem", &issuer.pem()), ("own.pem", &own.certificate), ("own.key", &own.key)]
    {
        std::fs::write(path(name), text).unwrap();
    }
    let url = url.replace("postgres@", "certified@");
    let ca = path("ca.pem");
    let with_key = format!("sslcert={}&sslkey={}", path("own.pem"), path("own.key"));
    open(format!("{url}?sslmode=verify-ca&sslrootcert={ca}&{with_key}")).await.unwrap();
    for (parameters, said) in [
        (format!("sslmode=verify-ca&sslrootcert={ca}"), "certificate"),
        (format!("sslmode=verify-full&sslrootcert={ca}&{with_key}"), "not valid for name"),
    ] {
        let error = open(format!("{url}?{parameters}")).await.unwrap_err().to_string();
        assert!(error.contains(said), "{parameters}: {error}");
    }
}
