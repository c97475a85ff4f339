//! The secret of a hook and the signatures that it makes (Standard Webhooks, `v1`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::options::BadHook;

/// The prefix of a written secret.
const PREFIX: &str = "whsec_";

/// The allowed lengths, by the standard.
const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A shared secret. Never shown.
#[derive(Clone)]
pub struct HookSecret(Zeroizing<Vec<u8>>);

impl HookSecret {
    /// Reads `whsec_` and base64. What is wrong is told without quoting any of it.
    pub fn parse(text: &str) -> Result<Self, BadHook> {
        let coded = text.trim().strip_prefix(PREFIX).ok_or(BadHook::SecretForm)?;
        let bytes = STANDARD.decode(coded).map(Zeroizing::new).map_err(|_| BadHook::SecretForm)?;
        if BYTES.contains(&bytes.len()) { Ok(Self(bytes)) } else { Err(BadHook::SecretLength) }
    }

    /// The value of `webhook-signature` for a message.
    pub fn sign(&self, id: &str, unix_seconds: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|error| unreachable!("HMAC takes keys of any length: {error}"));
        mac.update(format!("{id}.{unix_seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for HookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookSecret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the standard's own libraries.
    #[test]
    fn a_signature_is_that_of_the_standard() {
        let secret = HookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_has_a_form_and_is_never_shown() {
        let form = |text: &str| HookSecret::parse(text).err();
        assert_eq!(form("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), Some(BadHook::SecretForm));
        assert_eq!(form("whsec_***"), Some(BadHook::SecretForm));
        assert_eq!(form("whsec_c2hvcnQ="), Some(BadHook::SecretLength));
        assert_eq!(
            form(&format!("whsec_{}", STANDARD.encode([7; 65]))),
            Some(BadHook::SecretLength)
        );
        let secret = HookSecret::parse(&format!("whsec_{}", STANDARD.encode([7; 24]))).unwrap();
        assert_eq!(format!("{secret:?}"), "HookSecret(***)");
    }
}
