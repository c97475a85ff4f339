//! Tests of roles, secrets and the check of a key.

use std::time::Duration;

use crate::account_pool::PoolName;
use crate::ids::{ChainId, RequestId, Submitter, parse_address};

use super::*;

fn secret(seed: u8) -> KeySecret {
    KeySecret::from_random(KeyId::from_random([seed; ID_LEN]), [seed.wrapping_add(100); 32])
}

fn key(of: &KeySecret) -> ApiKey {
    ApiKey {
        id: of.id().clone(),
        name: Text::lossy("billing"),
        hash: of.hash(),
        rights: Rights { roles: Roles::parse("submit").unwrap(), ..Rights::all() },
        rate: None,
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

fn rights(roles: &str, scope: KeyScope, tenant: Option<&str>) -> Rights {
    let tenant = tenant.map(|name| Tenant::new(name).unwrap());
    Rights { roles: Roles::parse(roles).unwrap(), scope, tenant }
}

const ALICE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
const BOB: &str = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

fn scope(chains: &str, submitters: &str, pools: &str) -> KeyScope {
    KeyScope::parse(chains, submitters, pools).unwrap()
}

#[test]
fn scope_allows_listed_accounts_and_pools_on_listed_chains_only() {
    let on = |chain: u64, address: &str| {
        Submitter::new(ChainId::new(chain).unwrap(), parse_address(address).unwrap())
    };
    let pool = |name: &str| PoolName::new(name).unwrap();
    let any = KeyScope::default();
    assert!(any.is_everything() && any.has_submitter(on(7, BOB)));
    let listed = scope("1,8453", ALICE, "payouts");
    assert!(listed.has_submitter(on(1, ALICE)) && listed.has_submitter(on(8453, ALICE)));
    assert!(!listed.has_submitter(on(1, BOB)), "another account");
    assert!(!listed.has_submitter(on(7, ALICE)), "another chain");
    let one = ChainId::new(1).unwrap();
    assert!(listed.has_pool(one, &pool("payouts")) && !listed.has_pool(one, &pool("others")));
    assert!(!listed.has_pool(ChainId::new(7).unwrap(), &pool("payouts")));
    let of_pool = scope("", "", "payouts");
    assert!(!of_pool.has_submitter(on(1, ALICE)), "a key for a pool is for no account by address");
    assert!(!scope("", ALICE, "").has_pool(one, &pool("payouts")));
}

#[test]
fn scope_is_read_back_as_it_was_stored_and_is_limited_in_length() {
    let given = scope("8453,1", BOB, "b,a");
    let again = scope(&given.stored_chains(), &given.stored_submitters(), &given.stored_pools());
    assert_eq!(again, given);
    assert_eq!(given.stored_chains(), "1,8453");
    assert_eq!(scope("", "", ""), KeyScope::default());
    let chains = |count: u64| (1..=count).map(|id| ChainId::new(id).unwrap());
    assert!(KeyScope::new(chains(100), [], []).is_ok());
    assert_eq!(KeyScope::new(chains(101), [], []).unwrap_err().field, "chains");
    for bad in ["x", "1,,x", "0"] {
        assert!(KeyScope::parse(bad, "", "").is_err(), "{bad}");
    }
}

#[test]
fn maker_of_a_key_gives_no_more_than_it_has() {
    let all = Rights::all();
    let admin = rights("admin", scope("1", ALICE, ""), Some("acme"));
    for other in [
        all.clone(),
        rights("admin", scope("1", ALICE, ""), None),
        rights("admin", scope("1", ALICE, ""), Some("other")),
        rights("read", scope("1,2", ALICE, ""), Some("acme")),
        rights("read", scope("1", "", ""), Some("acme")),
        rights("read", scope("1", BOB, ""), Some("acme")),
        rights("read", scope("1", ALICE, "payouts"), Some("acme")),
    ] {
        assert!(!admin.cover(&other), "{other:?}");
        assert!(all.cover(&other), "{other:?}");
    }
    assert!(
        admin.cover(&admin) && admin.cover(&rights("read", scope("1", ALICE, ""), Some("acme")))
    );
    let operator = rights("operate", KeyScope::default(), None);
    assert!(operator.cover(&rights("read", KeyScope::default(), None)));
    assert!(!operator.cover(&rights("submit", KeyScope::default(), None)));
}

#[test]
fn tenant_sees_its_own_requests_alone() {
    let of =
        |tenant: &str| RequestId::of_tenant(&Tenant::new(tenant).unwrap(), "order-17").unwrap();
    let without = RequestId::new("order-17").unwrap();
    let acme = rights("read", KeyScope::default(), Some("acme"));
    assert!(acme.see_request(Some(&of("acme"))));
    for hidden in [None, Some(&without), Some(&of("acme2")), Some(&of("ac"))] {
        assert!(!acme.see_request(hidden), "{hidden:?}");
        assert!(Rights::all().see_request(hidden));
    }
}

#[test]
fn rate_is_written_as_requests_per_second_and_burst() {
    let rate = |text: &str| text.parse::<RateLimit>().map(|rate| rate.to_string());
    assert_eq!(rate("20").as_deref(), Ok("20/20"));
    assert_eq!(rate("20/100").as_deref(), Ok("20/100"));
    for bad in ["", "0", "20/0", "x", "20/", "100001", "-1", "1.5"] {
        assert_eq!(rate(bad).unwrap_err().field, "rate", "{bad}");
    }
}

#[test]
fn tenant_name_is_plain_and_short() {
    assert!(Tenant::new("acme.eu_west-1").is_ok() && Tenant::new("x".repeat(40)).is_ok());
    for bad in ["", "a b", "a\u{1f}b", "ü", &"x".repeat(41)] {
        assert_eq!(Tenant::new(bad).unwrap_err().field, "tenant", "{bad:?}");
    }
}

#[test]
fn characters_that_disguise_a_name_are_told_from_those_of_languages() {
    let disguises = "\u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{feff}\u{e0000}\u{e0041}\u{e007f}";
    assert!(disguises.chars().all(is_invisible));
    let names = "ops Zürich \u{645}\u{6cc}\u{200c}\u{62e} \u{1f469}\u{200d}\u{1f680} \u{e0100}";
    assert!(!names.chars().any(is_invisible));
}
