//! The files of a node with planted secrets, and an endpoint that repeats what it is sent.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair};

use super::planted::{
    HOOK_SECRET, KEYSTORE_PASSWORD, Planted, SINK_FILE_SECRET, SINK_SECRET, WEBHOOK_SECRET,
    WEBHOOK_SECRET_BEFORE,
};
use crate::program::free_port;

const KEYSTORE: &str = include_str!("../../../../tollgate-signer/tests/fixtures/keystore.json");

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

/// The files of a node and its configurations.
pub(super) struct Ground {
    pub(super) folder: tempfile::TempDir,
    pub(super) port: u16,
    /// The RPC endpoints.
    pub(super) urls: Vec<String>,
}

impl Ground {
    pub(super) fn new(
        planted: &Planted,
        tls_key: &KeyPair,
        chain_url: &str,
        database: &str,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut ground = Self { folder, port: free_port(), urls: Vec::new() };
        let root = ground.folder.path().to_owned();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
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
        let sink_secret = write("sink", SINK_FILE_SECRET);
        let mnemonic = write("mnemonic", planted.text("mnemonic"));
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = certificate.self_signed(tls_key).unwrap();
        let node_certificate = write("node.pem", &certificate.pem());
        let node_key = write("node.key", &tls_key.serialize_pem());
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
        let [relay, one_of_several, hook, webhook, sink, collector] = [
            "RPC key of a private relay",
            "RPC key of one of several chains",
            "hook key in the path",
            "webhook key in the path",
            "alert sink key in the path",
            "collector key in the path",
        ]
        .map(|what| planted.text(what));
        let shared = format!(
            "listen = \"127.0.0.1:{port}\"\n[database]\nurl = \"{database}\"\n\
             [keys]\nprivate_keys = [\"{inline}\"]\nprivate_key_files = [\"{key_file}\"]\nkeystore = \"{keystore}\"\n\
             keystore_password_file = \"{password}\"\nmnemonic_file = \"{mnemonic}\"\n\
             [cluster]\ncert_file = \"{node_certificate}\"\nkey_file = \"{node_key}\"\n\
             [stuck.hook]\nurl = \"http://127.0.0.1:1/{hook}\"\nsecret_file = \"{hook_secret}\"\n\
             [events]\nenabled = true\nmode = \"webhook\"\n[events.webhook]\nallow_private = true\n\
             url = \"http://127.0.0.1:1/{webhook}\"\nsecret = \"{WEBHOOK_SECRET}\"\n\
             previous_secret = \"{WEBHOOK_SECRET_BEFORE}\"\n\
             [traces]\notlp_url = \"http://127.0.0.1:1/{collector}\"\n\
             [alerts]\ninterval = \"200ms\"\nresolve_after = \"1s\"\nendpoint_down_after = \"1s\"\n\
             [[alerts.sinks]]\nname = \"chat\"\ntype = \"slack\"\nurl = \"http://127.0.0.1:1/{sink}\"\n\
             [[alerts.sinks]]\nname = \"own\"\ntype = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n\
             secret = \"{SINK_SECRET}\"\n\
             [[alerts.sinks]]\nname = \"other\"\ntype = \"webhook\"\nurl = \"http://127.0.0.1:1/\"\n\
             secret_file = \"{sink_secret}\"\n",
            port = ground.port,
            inline = planted.text("private key in the settings, without 0x"),
        );
        let chain = format!(
            "[chain]\nrpc_urls = {urls:?}\nprivate_rpc_urls = [\"http://127.0.0.1:1/{relay}\"]\n"
        );
        let chains = format!(
            "[[chains]]\nname = \"one\"\nid = 31337\nrpc_urls = [\"http://127.0.0.1:1/{one_of_several}\"]\n"
        );
        let nats = format!(
            "[events]\nenabled = true\nmode = \"nats\"\n\
             [events.nats]\nurl = \"nats://tollgate:{}@127.0.0.1:1\"\n",
            planted.escaped("NATS password")
        );
        let archive = ground.path("archive");
        let retention = format!(
            "[retention]\nfinished_after = \"1s\"\nmode = \"archive\"\narchive_dir = \"{archive}\"\n"
        );
        write("t.toml", &format!("{shared}{chain}"));
        write("chains.toml", &format!("{shared}{chains}"));
        write("nats.toml", &format!("{chain}{nats}"));
        write("retention.toml", &format!("{shared}{retention}"));
        ground.urls = urls.to_vec();
        ground
    }

    /// The path of a file.
    pub(super) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}
