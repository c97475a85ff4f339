//! The development accounts.

use tollgate_devchain::{dev_account, dev_accounts, sign};

use crate::support::NOBODY;

#[test]
fn every_dev_address_belongs_to_its_key() {
    assert_eq!(dev_accounts().len(), 20);
    for account in dev_accounts() {
        assert_eq!(sign::address_of(&account.private_key), Ok(account.address));
        assert_eq!(dev_account(account.address), Some(account));
    }
    assert_eq!(dev_account(NOBODY), None);
}
