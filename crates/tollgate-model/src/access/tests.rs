//! Tests of roles, secrets and the check of a key.

use std::time::Duration;

use super::*;

fn secret(seed: u8) -> KeySecret {
    KeySecret::from_random(KeyId::from_random([seed; ID_LEN]), [seed.wrapping_add(100); 32])
}

fn key(of: &KeySecret) -> ApiKey {
    ApiKey {
        id: of.id().clone(),
        name: Text::lossy("billing"),
        hash: of.hash(),
        roles: Roles::parse("submit").unwrap(),
        created_at: Timestamp::EPOCH,
        created_by: Text::lossy("cli"),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

#[test]
fn admin_allows_everything_and_operate_does_not_allow_submit() {
    let allowed = |roles: &str| {
        let roles = Roles::parse(roles).unwrap();
        Role::ALL.map(|role| roles.allow(role))
    };
    assert_eq!(allowed("read"), [true, false, false, false]);
    assert_eq!(allowed("submit"), [true, true, false, false]);
    assert_eq!(allowed("operate"), [true, false, true, false]);
    assert_eq!(allowed("submit,operate"), [true, true, true, false]);
    assert_eq!(allowed("admin"), [true; 4]);
    for bad in ["", "root", "read,,submit"] {
        assert_eq!(Roles::parse(bad).unwrap_err().field, "roles", "{bad}");
    }
    assert_eq!(Roles::parse("admin, read").unwrap().to_string(), "read,admin");
}

#[test]
fn secret_is_read_back_and_every_mistyped_character_is_found() {
    let made = secret(7);
    let read = KeySecret::parse(made.reveal()).unwrap();
    assert_eq!((read.id(), read.hash()), (made.id(), made.hash()));
    for place in 0..made.reveal().len() {
        let mut typo = made.reveal().to_owned();
        let other = if &typo[place..=place] == "b" { "c" } else { "b" };
        typo.replace_range(place..=place, other);
        assert!(KeySecret::parse(&typo).is_err(), "{place}");
    }
    for bad in ["", "tg_live_", "Bearer x", &made.reveal()[1..], &format!("{}0", made.reveal())] {
        assert!(KeySecret::parse(bad).is_err());
    }
}

#[test]
fn key_accepts_its_own_secret_until_it_expires_or_is_revoked() {
    let at = |seconds| Timestamp::EPOCH.after(Duration::from_secs(seconds));
    let own = secret(1);
    let other = KeySecret::from_random(own.id().clone(), [9; 32]);
    let key = key(&own);
    assert_eq!(key.check(&own, at(5)), Ok(()));
    assert_eq!(key.check(&other, at(5)), Err(KeyRefusal::WrongSecret));
    let ends = ApiKey { expires_at: Some(at(5)), ..key.clone() };
    assert_eq!(ends.check(&own, at(4)), Ok(()));
    assert_eq!(ends.check(&own, at(5)), Err(KeyRefusal::Expired));
    let revoked = ApiKey { revoked_at: Some(at(9)), ..key };
    assert_eq!(revoked.check(&own, at(1)), Err(KeyRefusal::Revoked));
    assert_eq!(revoked.check(&other, at(1)), Err(KeyRefusal::WrongSecret));
}

#[test]
fn debug_output_and_masked_text_show_no_secret() {
    let secret = secret(3);
    let tail = &secret.reveal()[SECRET_PREFIX.len() + ID_LEN + 1..];
    let debug = format!("{secret:?} {:?}", key(&secret));
    assert!(!debug.contains(&tail[..8]), "{debug}");
    // Without the mix of letters that random bytes have.
    for text in [secret.reveal(), &format!("tg_live_abcdefghijkm_{}", "a".repeat(49))] {
        let shown = crate::secret::masked(&format!("header {text}: refused"));
        assert!(shown.ends_with("_(secret not shown): refused"), "{shown}");
    }
}
