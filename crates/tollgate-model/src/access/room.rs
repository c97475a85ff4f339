//! The number of API keys (I13): all that count are in the memory of each node.

use std::fmt;
use std::time::Duration;

use super::{ApiKey, Rights};
use crate::time::Timestamp;

/// The most keys that count.
pub const KEYS_MAX: usize = 10_000;
/// The most keys that count while a maker with a tenant or a scope makes one more. The rest is left to the command
/// line and to administrators without either.
pub const RESTRICTED_KEYS_MAX: usize = 9_000;
/// The most keys that count of one maker's tenant, or of a maker's scope.
pub const SHARE_KEYS_MAX: usize = 1_000;
/// The time for which a key counts, and nodes know it, after its end. Without it, nodes would have to remember
/// as many keys as anybody makes and revokes.
pub const KEPT_AFTER_END: Duration = Duration::from_secs(24 * 3_600);

/// The reason for a new key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewKeyUse {
    Additional,
    /// Takes the place of another one, which stays valid for a while. All limits are twice as high, so that
    /// each key can be rotated when there is no room for one more.
    Rotation,
}

/// A limit that leaves no room for one more key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyLimit {
    /// Of all keys.
    Database(usize),
    /// Of the keys of the maker's tenant, or in its scope.
    Share(usize),
}

impl fmt::Display for KeyLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (max, whose) = match self {
            Self::Database(max) => (max, "the database"),
            Self::Share(max) => (max, "the tenant or scope of your key"),
        };
        write!(f, "there are {max} API keys of {whose}, and no more are allowed; ")?;
        f.write_str("revoke some: each counts until 24 hours after its end")
    }
}

impl ApiKey {
    /// Returns whether the key ended so long ago that it does not count and that nodes forget it.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        let ended = [self.revoked_at, self.expires_at].into_iter().flatten().min();
        ended.is_some_and(|end| end.after(KEPT_AFTER_END) <= now)
    }
}

/// Checks that one more key can be made by a maker with these rights.
pub fn check_room(
    keys: &[ApiKey],
    maker: &Rights,
    new: NewKeyUse,
    now: Timestamp,
) -> Result<(), KeyLimit> {
    let times = if new == NewKeyUse::Rotation { 2 } else { 1 };
    let all = keys.iter().filter(|key| !key.is_forgotten(now)).count();
    if maker.see_everything() {
        let max = KEYS_MAX * times;
        return if all < max { Ok(()) } else { Err(KeyLimit::Database(max)) };
    }
    let is_own = |key: &&ApiKey| match &maker.tenant {
        Some(tenant) => key.rights.tenant.as_ref() == Some(tenant),
        None => maker.cover(&key.rights),
    };
    let own = keys.iter().filter(|key| !key.is_forgotten(now)).filter(is_own).count();
    if own >= SHARE_KEYS_MAX * times {
        return Err(KeyLimit::Share(SHARE_KEYS_MAX * times));
    }
    let max = RESTRICTED_KEYS_MAX * times;
    if all < max { Ok(()) } else { Err(KeyLimit::Database(max)) }
}

#[cfg(test)]
mod tests {
    use super::super::{KeyId, KeyScope, SecretHash, Tenant};
    use super::*;
    use crate::text::Text;

    fn now() -> Timestamp {
        Timestamp::EPOCH.after(Duration::from_secs(1_800_000_000))
    }

    fn rights(tenant: Option<&str>) -> Rights {
        Rights { tenant: tenant.map(|name| Tenant::new(name).unwrap()), ..Rights::all() }
    }

    fn keys(count: usize, tenant: Option<&str>) -> Vec<ApiKey> {
        let key = ApiKey {
            id: KeyId::from_random([7; 12]),
            name: Text::lossy("test"),
            hash: SecretHash::from_stored([0; 32]),
            rights: rights(tenant),
            rate: None,
            created_at: now(),
            created_by: Text::lossy("cli"),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        vec![key; count]
    }

    fn check(keys: &[ApiKey], tenant: Option<&str>, new: NewKeyUse) -> Result<(), KeyLimit> {
        check_room(keys, &rights(tenant), new, now())
    }

    #[test]
    fn tenant_has_a_share_and_leaves_room_for_others() {
        let mut some = keys(SHARE_KEYS_MAX, Some("acme"));
        let full = check(&some, Some("acme"), NewKeyUse::Additional);
        assert_eq!(full, Err(KeyLimit::Share(SHARE_KEYS_MAX)));
        assert_eq!(check(&some, Some("other"), NewKeyUse::Additional), Ok(()));
        assert_eq!(check(&some, None, NewKeyUse::Additional), Ok(()));
        some.extend(keys(RESTRICTED_KEYS_MAX - SHARE_KEYS_MAX, None));
        let full = check(&some, Some("other"), NewKeyUse::Additional);
        assert_eq!(full, Err(KeyLimit::Database(RESTRICTED_KEYS_MAX)));
        assert_eq!(check(&some, None, NewKeyUse::Additional), Ok(()), "the rest is left to it");
        some.extend(keys(KEYS_MAX - RESTRICTED_KEYS_MAX, None));
        let full = check(&some, None, NewKeyUse::Additional);
        assert_eq!(full, Err(KeyLimit::Database(KEYS_MAX)));
    }

    #[test]
    fn maker_with_a_scope_has_a_share_of_the_keys_in_it() {
        let scope = KeyScope::parse("1", "", "").unwrap();
        let maker = Rights { scope, ..Rights::all() };
        let check = |keys: &[ApiKey]| check_room(keys, &maker, NewKeyUse::Additional, now());
        let mut some = keys(SHARE_KEYS_MAX, None);
        assert_eq!(check(&some), Ok(()), "keys for all chains are not its own");
        some.iter_mut().for_each(|key| key.rights = maker.clone());
        assert_eq!(check(&some), Err(KeyLimit::Share(SHARE_KEYS_MAX)));
    }

    #[test]
    fn keys_can_be_rotated_when_there_is_no_room_for_more() {
        let some = keys(SHARE_KEYS_MAX, Some("acme"));
        assert_eq!(check(&some, Some("acme"), NewKeyUse::Rotation), Ok(()));
        let many = keys(KEYS_MAX, None);
        assert_eq!(check(&many, Some("acme"), NewKeyUse::Rotation), Ok(()));
        assert_eq!(check(&many, None, NewKeyUse::Rotation), Ok(()));
        let twice = keys(2 * SHARE_KEYS_MAX, Some("acme"));
        let full = check(&twice, Some("acme"), NewKeyUse::Rotation);
        assert_eq!(full, Err(KeyLimit::Share(2 * SHARE_KEYS_MAX)), "a loop of rotations ends");
    }

    #[test]
    fn key_counts_until_a_day_after_its_end() {
        let mut some = keys(SHARE_KEYS_MAX, Some("acme"));
        let end = now().after(Duration::from_secs(60));
        some[0].revoked_at = Some(end);
        some[1].expires_at = Some(end);
        let later = end.after(KEPT_AFTER_END);
        let full = check_room(&some, &rights(Some("acme")), NewKeyUse::Additional, end);
        assert!(full.is_err(), "it ended just now");
        assert!(some[0].is_forgotten(later) && some[1].is_forgotten(later));
        assert!(!some[2].is_forgotten(later));
        let room = check_room(&some, &rights(Some("acme")), NewKeyUse::Additional, later);
        assert_eq!(room, Ok(()));
    }
}
