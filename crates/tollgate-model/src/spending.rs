//! The transactions that an account may send: a cap on the value of each, and a list of allowed calls.
//!
//! The rules bound what a leaked API key or a defect of a caller can do. They are checked before a nonce is
//! chosen, and again when a transaction gets another payload. Transfers to self that close a slot move
//! nothing and are not checked.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{Address, U256, hex};

use crate::amount::Wei;
use crate::ids::{InvalidValue, parse_address};
use crate::intent::Intent;
use crate::refusal::{Refusal, RefusalKind, RefusedField};

/// The most entries of a list of allowed calls (I13).
pub const ALLOWED_CALLS_MAX: usize = 200;

/// The rules of one account. Without any, everything is allowed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpendingRules {
    /// The highest value of one transaction. Tokens that call data move are not counted.
    pub max_value: Option<Wei>,
    /// The calls that are allowed; `None` allows all of them.
    pub allowed_calls: Option<AllowedCalls>,
}

/// A list of allowed calls; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedCalls(Vec<AllowedCall>);

/// An entry of the list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AllowedCall {
    /// `ADDRESS`: any call and any transfer to it.
    Any(Address),
    /// `ADDRESS:0xSELECTOR`: calls of one function.
    Function(Address, [u8; 4]),
    /// `ADDRESS:value`: transfers without call data.
    Value(Address),
    /// `create`: contract creations.
    Create,
    /// `set-code`: authorizations (EIP-7702), in transactions that are allowed otherwise.
    SetCode,
}

impl AllowedCalls {
    /// Reads a list. An entry that stands twice counts once.
    ///
    /// # Errors
    /// The list is empty or too long, or an entry can't be read.
    pub fn read<T: AsRef<str>>(entries: &[T]) -> Result<Self, InvalidValue> {
        let wrong = |problem: String| InvalidValue::new("allowedCalls", problem);
        if entries.is_empty() {
            return Err(wrong("must not be empty; disable the account instead".to_owned()));
        }
        if entries.len() > ALLOWED_CALLS_MAX {
            let count = entries.len();
            return Err(wrong(format!("{count} entries are more than {ALLOWED_CALLS_MAX}")));
        }
        let mut read = Vec::with_capacity(entries.len());
        for (place, entry) in entries.iter().enumerate() {
            let entry: AllowedCall = entry.as_ref().parse().map_err(|error: InvalidValue| {
                wrong(format!("entry {}: {}", place + 1, error.problem))
            })?;
            if !read.contains(&entry) {
                read.push(entry);
            }
        }
        Ok(Self(read))
    }

    /// The entries, in the order in which they were given.
    pub fn entries(&self) -> &[AllowedCall] {
        &self.0
    }
}

/// The stored form: the entries with a comma between them.
impl fmt::Display for AllowedCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, entry) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{entry}")?;
        }
        Ok(())
    }
}

impl FromStr for AllowedCalls {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        Self::read(&text.split(',').collect::<Vec<_>>())
    }
}

impl fmt::Display for AllowedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(to) => write!(f, "{to}"),
            Self::Function(to, selector) => write!(f, "{to}:{}", hex::encode_prefixed(selector)),
            Self::Value(to) => write!(f, "{to}:value"),
            Self::Create => f.write_str("create"),
            Self::SetCode => f.write_str("set-code"),
        }
    }
}

impl FromStr for AllowedCall {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let wrong = || {
            let forms = "ADDRESS, ADDRESS:0xSELECTOR (4 bytes), ADDRESS:value, create or set-code";
            InvalidValue::new("allowedCalls", format!("must be {forms}"))
        };
        let text = text.trim();
        let (to, what) = match (text, text.split_once(':')) {
            ("create", _) => return Ok(Self::Create),
            ("set-code", _) => return Ok(Self::SetCode),
            (to, None) => (to, None),
            (_, Some((to, what))) => (to, Some(what)),
        };
        let to = parse_address(to).map_err(|_| wrong())?;
        match what {
            None => Ok(Self::Any(to)),
            Some("value") => Ok(Self::Value(to)),
            Some(selector) => {
                let selector = selector.strip_prefix("0x").ok_or_else(wrong)?;
                let mut bytes = [0; 4];
                hex::decode_to_slice(selector, &mut bytes).map_err(|_| wrong())?;
                Ok(Self::Function(to, bytes))
            }
        }
    }
}

impl AllowedCall {
    /// Returns whether the entry allows a transaction with this target and call data.
    fn allows(self, to: Option<Address>, data: &[u8]) -> bool {
        match self {
            Self::Any(allowed) => to == Some(allowed),
            Self::Function(allowed, selector) => to == Some(allowed) && data.starts_with(&selector),
            Self::Value(allowed) => to == Some(allowed) && data.is_empty(),
            Self::Create => to.is_none(),
            Self::SetCode => false,
        }
    }
}

impl SpendingRules {
    /// Judges a whole intent.
    ///
    /// # Errors
    /// The value is above the cap, or the list does not allow it.
    pub fn judge(&self, intent: &Intent) -> Result<(), Refusal> {
        self.judge_call(intent.to, intent.value, &intent.data)?;
        let may_set_code = self
            .allowed_calls
            .as_ref()
            .is_none_or(|calls| calls.entries().contains(&AllowedCall::SetCode));
        if intent.authorization_list.is_empty() || may_set_code {
            return Ok(());
        }
        let detail = "the account's list of allowed calls has no set-code".to_owned();
        Err(Refusal::of(RefusalKind::CallNotAllowed, RefusedField::AuthorizationList, detail))
    }

    /// Judges a call or transfer.
    ///
    /// # Errors
    /// The value is above the cap, or the list does not allow it.
    pub fn judge_call(&self, to: Option<Address>, value: U256, data: &[u8]) -> Result<(), Refusal> {
        if let Some(Wei(max)) = self.max_value.filter(|max| value > max.0) {
            let detail = format!("{value} is above {max}, the account's maxValue");
            return Err(Refusal::of(RefusalKind::ValueAboveCap, RefusedField::Value, detail));
        }
        let Some(allowed) = &self.allowed_calls else { return Ok(()) };
        if allowed.entries().iter().any(|entry| entry.allows(to, data)) {
            return Ok(());
        }
        let asked = match (to, data) {
            (None, _) => "a contract creation".to_owned(),
            (Some(to), []) => format!("a transfer to {to}"),
            (Some(to), [a, b, c, d, ..]) => {
                format!("a call of {} at {to}", hex::encode_prefixed([*a, *b, *c, *d]))
            }
            (Some(to), _) => format!("call data without a function selector for {to}"),
        };
        let detail = format!("{asked} is not in the account's list of allowed calls");
        Err(Refusal::of(RefusalKind::CallNotAllowed, RefusedField::To, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::Authorization;

    const TOKEN: Address = Address::repeat_byte(7);
    const OTHER: Address = Address::repeat_byte(8);
    const TRANSFER: [u8; 4] = [0xa9, 0x05, 0x9c, 0xbb];

    fn rules(entries: &[&str]) -> SpendingRules {
        let allowed_calls = Some(AllowedCalls::read(entries).unwrap());
        SpendingRules { max_value: None, allowed_calls }
    }

    fn allows(rules: &SpendingRules, to: Option<Address>, data: &[u8]) -> bool {
        match rules.judge_call(to, U256::ZERO, data) {
            Ok(()) => true,
            Err(refusal) => {
                assert_eq!(refusal.kind, RefusalKind::CallNotAllowed);
                assert_eq!(refusal.field, Some(RefusedField::To));
                false
            }
        }
    }

    #[test]
    fn account_without_rules_may_send_everything() {
        let none = SpendingRules::default();
        for (to, data) in [(None, &[1_u8][..]), (Some(TOKEN), &TRANSFER), (Some(OTHER), &[])] {
            assert_eq!(none.judge_call(to, U256::MAX, data), Ok(()));
        }
    }

    #[test]
    fn value_above_the_cap_is_refused_and_the_cap_itself_is_not() {
        let capped = SpendingRules { max_value: Some(Wei(U256::from(10))), allowed_calls: None };
        assert_eq!(capped.judge_call(Some(OTHER), U256::from(10), &[]), Ok(()));
        let refusal = capped.judge_call(Some(OTHER), U256::from(11), &[]).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::ValueAboveCap);
        assert_eq!(refusal.field, Some(RefusedField::Value));
    }

    #[test]
    fn entry_with_a_selector_allows_that_function_alone() {
        let one = rules(&[&format!("{TOKEN}:0xa9059cbb")]);
        assert!(allows(&one, Some(TOKEN), &TRANSFER));
        assert!(allows(&one, Some(TOKEN), &[&TRANSFER[..], &[0; 64]].concat()));
        for (to, data) in [
            (Some(TOKEN), &[][..]),
            (Some(TOKEN), &TRANSFER[..3]),
            (Some(TOKEN), &[0x09, 0x5e, 0xa7, 0xb3]),
            (Some(OTHER), &TRANSFER),
            (None, &TRANSFER),
        ] {
            assert!(!allows(&one, to, data), "{to:?} {data:?}");
        }
    }

    #[test]
    fn entry_for_value_allows_no_call_data_and_a_bare_address_allows_all() {
        let value = rules(&[&format!("{TOKEN}:value")]);
        assert!(allows(&value, Some(TOKEN), &[]));
        assert!(!allows(&value, Some(TOKEN), &[0]));
        let any = rules(&[&TOKEN.to_string()]);
        for data in [&[][..], &[1], &TRANSFER] {
            assert!(allows(&any, Some(TOKEN), data));
            assert!(!allows(&any, Some(OTHER), data));
            assert!(!allows(&any, None, data));
        }
        assert!(allows(&rules(&["create"]), None, &[1, 2]));
    }

    #[test]
    fn authorizations_need_an_entry_of_their_own() {
        let mut intent = Intent::call(Some(TOKEN), U256::ZERO);
        let named = TOKEN.to_string();
        assert_eq!(rules(&[&named]).judge(&intent), Ok(()));
        intent.authorization_list.push(Authorization {
            chain_id: 0,
            address: OTHER,
            nonce: 0,
            authority: OTHER,
            signature: None,
        });
        let refusal = rules(&[&named]).judge(&intent).unwrap_err();
        assert_eq!(refusal.field, Some(RefusedField::AuthorizationList));
        assert_eq!(rules(&[&named, "set-code"]).judge(&intent), Ok(()));
        assert_eq!(SpendingRules::default().judge(&intent), Ok(()));
    }

    #[test]
    fn list_is_read_as_it_is_written_and_an_entry_twice_counts_once() {
        let (any, call) = (TOKEN.to_string(), format!("{OTHER}:0xa9059cbb"));
        let value = format!("{OTHER}:value");
        let list = [any.as_str(), &call, &value, "create", "set-code", &any];
        let read = AllowedCalls::read(&list).unwrap();
        assert_eq!(read.entries().len(), 5);
        assert_eq!(read.to_string().parse::<AllowedCalls>().unwrap(), read);
    }

    #[test]
    fn list_that_is_empty_too_long_or_unreadable_is_refused() {
        let address = TOKEN.to_string();
        assert!(AllowedCalls::read::<&str>(&[]).is_err());
        assert!(AllowedCalls::read(&vec![address.clone(); ALLOWED_CALLS_MAX]).is_ok());
        assert!(AllowedCalls::read(&vec![address.clone(); ALLOWED_CALLS_MAX + 1]).is_err());
        for wrong in ["", "*", "0x12", "transfer", &format!("{address}:"), "create:value"] {
            assert!(AllowedCalls::read(&[wrong]).is_err(), "{wrong}");
        }
        for what in ["a9059cbb", "0xa9059c", "0xa9059cbb00", "0xzzzzzzzz", "transfer(address)"] {
            assert!(AllowedCalls::read(&[format!("{address}:{what}")]).is_err(), "{what}");
        }
    }
}
