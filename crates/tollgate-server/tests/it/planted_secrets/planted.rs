//! Secrets, the forms that each may have in a text, and the search for them.

use std::collections::BTreeMap;

use rcgen::KeyPair;
use tollgate_devchain::dev_accounts;

pub(super) const KEYSTORE_PASSWORD: &str = "hunter2hunter2";
pub(super) const HOOK_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const WEBHOOK_SECRET: &str = "whsec_Qm9sdEFuY2hvckNhYmxlRG9ja0VlbEZvZ0d1bGY=";
pub(super) const WEBHOOK_SECRET_BEFORE: &str = "whsec_SGFyYm91cklubGV0SmV0dHlLZWVsTGFudGVybk0=";
pub(super) const SINK_SECRET: &str = "whsec_TW9vcmluZ05hdXRpY2FsT2Fyc1BpZXJRdWF5UmVlZg==";
pub(super) const SINK_FILE_SECRET: &str = "whsec_U2FpbFRpZGVVbmRlcnRvd1Zlc3NlbFdoYXJmWWFjaHQ=";

/// For each setting that `docs/config.md` calls a secret: the secret that is planted in it.
const PLANTED_IN: [(&str, &str); 22] = [
    ("alerts.sinks", "alert sink secret"),
    ("alerts.sinks.secret", "alert sink secret"),
    ("alerts.sinks.url", "alert sink key in the path"),
    ("chain.private_rpc_urls", "RPC key of a private relay"),
    ("chain.private_rpc_urls.url", "RPC key of a private relay"),
    ("chain.rpc_urls", "RPC key in the path"),
    ("chain.rpc_urls.url", "RPC password"),
    ("chains", "RPC key of one of several chains"),
    ("chains.rpc_urls", "RPC key of one of several chains"),
    ("database.url", "database password"),
    ("events.nats.url", "NATS password"),
    ("events.webhook.previous_secret", "webhook secret of before"),
    ("events.webhook.secret", "webhook secret"),
    ("events.webhook.url", "webhook key in the path"),
    ("keys.keystore_password", "keystore password"),
    ("keys.mnemonic", "mnemonic"),
    ("keys.private_keys", "private key in the settings, without 0x"),
    ("stuck.hook.secret", "hook secret"),
    ("stuck.hook.url", "hook key in the path"),
    ("traces.otlp_url", "collector key in the path"),
    // Files that hold a secret by themselves.
    ("alerts.sinks.secret_file", "alert sink secret in a file"),
    ("cluster.key_file", "TLS key"),
];

/// The secrets of a node: what each is, and its text.
pub(super) struct Planted(pub(super) BTreeMap<&'static str, String>);

impl Planted {
    pub(super) fn new(tls_key: &KeyPair) -> Self {
        let bare =
            |secret: &str| secret.trim_start_matches("whsec_").trim_end_matches('=').to_owned();
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
            ("RPC key of a private relay", "relay-key-5a4b3c2d1e0f9a8b".to_owned()),
            ("RPC key of one of several chains", "chain-key-1b2a3948576a7b8c".to_owned()),
            (
                "mnemonic",
                "legal winner thank year wave sausage worth useful legal winner thank yellow"
                    .to_owned(),
            ),
            ("TLS key", hex(&scalar(tls_key))),
            ("hook secret", bare(HOOK_SECRET)),
            ("webhook secret", bare(WEBHOOK_SECRET)),
            ("webhook secret of before", bare(WEBHOOK_SECRET_BEFORE)),
            ("webhook key in the path", "webhook-path-0a9b8c7d6e5f4a3b".to_owned()),
            ("alert sink secret", bare(SINK_SECRET)),
            ("alert sink secret in a file", bare(SINK_FILE_SECRET)),
            ("alert sink key in the path", "sink-path-9c8d7e6f5a4b3c2d".to_owned()),
            ("NATS password", "nats:password/8877665544".to_owned()),
            ("collector key in the path", "collector-path-6a5b4c3d2e1f0a9b".to_owned()),
            ("hook key in the path", "hook-path-7f6e5d4c3b2a1908".to_owned()),
        ]))
    }

    pub(super) fn text(&self, what: &str) -> &str {
        &self.0[what]
    }

    pub(super) fn escaped(&self, what: &str) -> String {
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

    /// Fails if a setting that the documentation calls a secret has none planted in it.
    pub(super) fn assert_complete(&self, config_page: &str) {
        for setting in secret_settings(config_page) {
            let what = PLANTED_IN.iter().find(|(name, _)| *name == setting);
            let (_, what) = what.unwrap_or_else(|| panic!("plant a secret in {setting}"));
            assert!(self.0.contains_key(what), "{setting}: {what}");
        }
        for (setting, what) in PLANTED_IN {
            assert!(self.0.contains_key(what), "{setting}: {what}");
        }
    }

    /// Fails if one of the secrets is in a text, and names the place.
    pub(super) fn assert_absent(&self, place: &str, text: &str) {
        self.assert_absent_but(&[], place, text);
    }

    /// The same for a text that must hold some of them.
    pub(super) fn assert_absent_but(&self, allowed: &[&str], place: &str, text: &str) {
        let is_allowed =
            |what: &str| allowed.iter().any(|allowed| what.starts_with(&format!("{allowed},")));
        for (what, form) in self.forms().into_iter().filter(|(what, _)| !is_allowed(what)) {
            assert!(form.len() >= 12, "{what} is too short to be looked for");
            if let Some(at) = text.find(&form) {
                let from = text[..at].rfind('\n').map_or(0, |line| line + 1);
                let line: String = text[from..].lines().next().unwrap_or_default().into();
                panic!("{place} holds the {what}: {line}");
            }
        }
    }
}

pub(super) fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).ok();
    is_hex.then(|| (0..64).step_by(2).map(byte).collect()).flatten()
}

pub(super) fn base64(bytes: &[u8]) -> String {
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

/// The settings that `docs/config.md` calls secrets: `database.url`, and `alerts.sinks.url` for a field of an entry.
fn secret_settings(config_page: &str) -> Vec<String> {
    let (mut settings, mut entry_of) = (Vec::new(), None);
    for line in config_page.lines() {
        if line.starts_with('#') {
            entry_of =
                line.strip_prefix("### An entry of `").map(|name| name.trim_end_matches('`'));
        }
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(name), Some(kind)) = (cells.next(), cells.next()) else { continue };
        if kind.ends_with("; a secret") {
            let name = name.trim_matches('`');
            settings.push(entry_of.map_or_else(|| name.to_owned(), |of| format!("{of}.{name}")));
        }
    }
    settings
}

/// The private number of a key on P-256, from its PKCS #8 form.
fn scalar(key: &KeyPair) -> Vec<u8> {
    let der = key.serialize_der();
    let start = [0x02, 0x01, 0x01, 0x04, 0x20];
    let at = der.windows(start.len()).position(|window| window == start).unwrap();
    der[at + start.len()..][..32].to_vec()
}

#[test]
fn settings_that_the_page_calls_secrets_are_found() {
    let page = "## `[a]`\n| `a.b` | text; a secret | none |\n| `a.c` | text | none |\n### An entry of `a.d`\n\
                | `url` | list; a secret |  |\n## `[e]`\n| `e.f` | text; a secret | none |\n";
    assert_eq!(secret_settings(page), ["a.b", "a.d.url", "e.f"]);
}

#[test]
fn planted_secret_is_found_in_each_of_its_forms() {
    let planted = Planted::new(&KeyPair::generate().unwrap());
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
        let found = std::panic::catch_unwind(|| planted.assert_absent("a text", &text));
        assert!(found.is_err(), "{text}");
    }
    planted.assert_absent("a text", "nothing of the kind");
}
