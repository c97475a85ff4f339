//! Intents and their stored encoding.

use alloy_primitives::{Address, Bytes, U256};
use serde::{Deserialize, Serialize};

use crate::amount::GasPrice;
use crate::authorization::Authorization;
use crate::ids::{InvalidValue, TxHash};
use crate::metadata;
use crate::port::batch::Payload;
use crate::port::chain::Speed;
use crate::port::signer::{AccessListEntry, TxKind};
use crate::route::{PrivateRoute, Route, route_at};
use crate::time::Timestamp;

/// A call to be made from a submitter. Equal intents have equal bytes (I7).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Intent {
    /// The called contract or recipient; `None` creates a contract.
    pub to: Option<Address>,
    pub value: U256,
    pub data: Bytes,
    /// The gas limit; estimated if it is `None`.
    pub gas: Option<u64>,
    /// The encoding; chosen by the chain's abilities if it is `None`.
    pub kind: Option<TxKind>,
    pub access_list: Vec<AccessListEntry>,
    pub speed: Speed,
    /// The caller's cap on the gas price.
    pub max_fee_per_gas: Option<GasPrice>,
    /// The caller's tip.
    pub max_priority_fee_per_gas: Option<GasPrice>,
    /// When it expires, in microseconds since 1970.
    pub valid_until: Option<i64>,
    /// The caller's metadata as JSON text, byte for byte as given.
    pub metadata: Option<String>,
    /// A policy or an operator may replace the call.
    #[serde(default, skip_serializing_if = "is_false")]
    pub replaceable: bool,
    /// The hash of the transaction, if the caller signed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<TxHash>,
    /// The private route, if the caller chose it; else it is public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<PrivateRoute>,
    /// When it may be given a slot, in microseconds since 1970. Versions that don't know the field can't read the
    /// intent and sign nothing for it, so they never send it early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<i64>,
    /// The authorizations of a set-code transaction.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub authorization_list: Vec<Authorization>,
}

impl Intent {
    /// A transfer at normal speed.
    pub const fn transfer(to: Address, value: U256) -> Self {
        Self::call(Some(to), value)
    }

    /// A call without data at normal speed; `None` creates a contract.
    pub const fn call(to: Option<Address>, value: U256) -> Self {
        Self {
            to,
            value,
            data: Bytes::new(),
            gas: None,
            kind: None,
            access_list: Vec::new(),
            speed: Speed::Normal,
            max_fee_per_gas: None,
            max_priority_fee_per_gas: None,
            valid_until: None,
            metadata: None,
            replaceable: false,
            signed: None,
            private: None,
            not_before: None,
            authorization_list: Vec::new(),
        }
    }

    /// When the intent expires.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.valid_until.map(Timestamp::from_unix_micros)
    }

    /// The route now, of a transaction whose first attempt was signed at this time, if it has one.
    pub fn route(&self, signed_at: Option<Timestamp>, now: Timestamp) -> Route {
        route_at(self.private, signed_at, now)
    }

    /// The route on which the call is estimated and first sent.
    pub const fn first_route(&self) -> Route {
        match self.private {
            Some(_) => Route::Private,
            None => Route::Public,
        }
    }

    /// When the intent may be given a slot.
    pub fn starts_at(&self) -> Option<Timestamp> {
        self.not_before.map(Timestamp::from_unix_micros)
    }

    /// The stored encoding: JSON with the fields in the order above. The digest depends on the meaning of
    /// the metadata, not on white space and order ([`metadata::canonical`]).
    pub fn to_payload(&self) -> Result<Payload, InvalidValue> {
        let kept = self.to_bytes()?;
        match self.metadata.as_deref().and_then(metadata::canonical) {
            Some(text) if self.metadata.as_ref() != Some(&text) => {
                let asked = Self { metadata: Some(text), ..self.clone() }.to_bytes()?;
                Payload::filled_in(kept, &Payload::new(asked)?)
            }
            Some(_) | None => Payload::new(kept),
        }
    }

    fn to_bytes(&self) -> Result<Bytes, InvalidValue> {
        let text = serde_json::to_vec(self)
            .map_err(|error| InvalidValue::new("payload", error.to_string()))?;
        Ok(text.into())
    }

    /// Decodes what [`Self::to_payload`] encoded.
    pub fn from_payload(bytes: &[u8]) -> Result<Self, InvalidValue> {
        serde_json::from_slice(bytes)
            .map_err(|error| InvalidValue::new("payload", error.to_string()))
    }

    /// The stored route of a payload that can't be decoded, for example because a later version wrote it: a
    /// transaction may be private unless the payload is a JSON object without a route.
    pub fn route_of_unreadable(bytes: &[u8]) -> Option<PrivateRoute> {
        let value: Result<serde_json::Value, _> = serde_json::from_slice(bytes);
        let is_public = value.is_ok_and(|value| {
            value.as_object().is_some_and(|fields| !fields.contains_key("private"))
        });
        (!is_public).then(PrivateRoute::default)
    }
}

/// Fields that were added later are omitted at their default, so that equal intents keep equal bytes.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's shape")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_survives_its_bytes_and_equal_intents_have_equal_digests() {
        let mut intent = Intent::transfer(Address::repeat_byte(3), U256::from(7));
        intent.data = Bytes::from_static(&[1, 2]);
        intent.kind = Some(TxKind::Legacy);
        intent.max_fee_per_gas = Some(GasPrice::from_wei(5).unwrap());
        intent.metadata = Some("{\"a\":1}".to_owned());
        let payload = intent.to_payload().unwrap();
        assert_eq!(Intent::from_payload(payload.bytes()).unwrap(), intent);
        assert_eq!(intent.clone().to_payload().unwrap().digest(), payload.digest());
        intent.value = U256::from(8);
        assert_ne!(intent.to_payload().unwrap().digest(), payload.digest());
    }

    /// Stored digests identify requests for ever (I7): an encoding that changes would turn repeats into conflicts.
    #[test]
    fn stored_bytes_and_digest_of_an_intent_never_change() {
        let intent = Intent {
            data: Bytes::from_static(&[1, 2]),
            gas: Some(21_000),
            kind: Some(TxKind::Legacy),
            max_fee_per_gas: Some(GasPrice::from_wei(5).unwrap()),
            valid_until: Some(9),
            metadata: Some("{\"a\":1}".to_owned()),
            replaceable: true,
            ..Intent::transfer(Address::repeat_byte(3), U256::from(7))
        };
        let payload = intent.to_payload().unwrap();
        let stored = r#"{"to":"0x0303030303030303030303030303030303030303","value":"0x7","data":"0x0102","gas":21000,"kind":"legacy","accessList":[],"speed":"normal","maxFeePerGas":5,"maxPriorityFeePerGas":null,"validUntil":9,"metadata":"{\"a\":1}","replaceable":true}"#;
        assert_eq!(String::from_utf8_lossy(payload.bytes()), stored);
        let digest = "0x2cf8c596c27743384a4a6857ab2e52fb37456710bb19031d47ee7bd5979fe571";
        assert_eq!(payload.digest().to_string(), digest);
        let later = stored.replace("\"gas\"", "\"unknown\":1,\"gas\"");
        assert!(Intent::from_payload(later.as_bytes()).is_err(), "a field of a later version");
    }

    #[test]
    fn metadata_are_kept_byte_for_byte_and_known_by_what_they_mean() {
        let with = |text: &str| {
            let metadata = Some(text.to_owned());
            let intent = Intent { metadata, ..Intent::transfer(Address::ZERO, U256::ZERO) };
            intent.to_payload().unwrap()
        };
        let given = "{ \"b\": 1, \"a\": 18446744073709551617 }";
        let kept = Intent::from_payload(with(given).bytes()).unwrap();
        assert_eq!(kept.metadata.as_deref(), Some(given));
        let same = "{\"a\":18446744073709551617,\"b\":1}";
        assert_eq!(with(same).digest(), with(given).digest());
        let other = "{\"a\":18446744073709551618,\"b\":1}";
        assert_ne!(with(other).digest(), with(given).digest());
    }

    #[test]
    fn another_route_is_another_intent_and_stored_intents_without_one_are_public() {
        let public = Intent::transfer(Address::ZERO, U256::ZERO);
        let stored = public.to_payload().unwrap();
        assert!(!String::from_utf8_lossy(stored.bytes()).contains("private"), "bytes as before");
        let mut digests = vec![stored.digest()];
        for after in [None, Some(60), Some(61)].map(|it| it.map(std::time::Duration::from_secs)) {
            let private = Some(PrivateRoute::with_fallback(after));
            let intent = Intent { private, ..public.clone() };
            let payload = intent.to_payload().unwrap();
            assert_eq!(Intent::from_payload(payload.bytes()).unwrap(), intent);
            assert!(!digests.contains(&payload.digest()), "{after:?}");
            digests.push(payload.digest());
        }
    }

    #[test]
    fn unreadable_payload_counts_as_private_unless_it_shows_no_route() {
        let public = Intent::transfer(Address::ZERO, U256::ZERO).to_payload().unwrap();
        assert_eq!(Intent::route_of_unreadable(public.bytes()), None);
        assert_eq!(Intent::route_of_unreadable(b"{\"new\":1}"), None);
        for bytes in [&b"{\"private\":{\"new\":1}}"[..], b"\xff", b"7"] {
            assert_eq!(Intent::route_of_unreadable(bytes), Some(PrivateRoute::default()));
        }
    }

    #[test]
    fn bytes_that_are_not_an_intent_are_a_named_error() {
        assert_eq!(Intent::from_payload(b"{}").unwrap_err().field, "payload");
        assert_eq!(Intent::from_payload(b"\xff").unwrap_err().field, "payload");
    }
}
