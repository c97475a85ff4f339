//! The signatures of chat robots.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// DingTalk: the key is the secret; signed are the milliseconds and the secret in two lines.
pub(super) fn dingtalk(secret: &str, unix_millis: u64) -> String {
    hmac_base64(secret.as_bytes(), format!("{unix_millis}\n{secret}").as_bytes())
}

/// Feishu: the key is the seconds and the secret in two lines; signed is nothing.
pub(super) fn feishu(secret: &str, unix_seconds: u64) -> String {
    hmac_base64(format!("{unix_seconds}\n{secret}").as_bytes(), b"")
}

fn hmac_base64(key: &[u8], signed: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .unwrap_or_else(|error| unreachable!("HMAC takes keys of any length: {error}"));
    mac.update(signed);
    STANDARD.encode(mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with the sample programs of the two robots' manuals.
    #[test]
    fn signatures_are_those_of_the_manuals() {
        assert_eq!(
            dingtalk("SECabc123", 1_700_000_000_123),
            "etIBQNvdgq9e1O4P4gRnRS05m9vXVgr6/5xt3Azj2s8="
        );
        assert_eq!(
            feishu("topsecret", 1_700_000_000),
            "YYwhpW0DojOMeEoJw+vpuvaw1aHMCx3kPEmfSlnJ6rA="
        );
    }
}
