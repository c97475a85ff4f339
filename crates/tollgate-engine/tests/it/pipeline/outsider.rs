//! Whoever else has a key, and signs and sends past the engine.

use tollgate_devchain::dev_accounts;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{SignedTx, Signer};
use tollgate_model::{GasPrice, Nonce, Submitter};
use tollgate_testkit::builders::draft;
use tollgate_testkit::cluster::dev_signer;

/// Price and tip in gwei: enough to be mined.
pub(crate) const MODEST: (u64, u64) = (20, 1);
/// Enough to take the place of anything that an engine offers by itself.
pub(crate) const DEAR: (u64, u64) = (200, 10);

/// A transfer in a slot.
pub(crate) async fn signed(
    of: Submitter,
    nonce: Nonce,
    value: u64,
    (price, tip): (u64, u64),
) -> SignedTx {
    let key = dev_accounts().iter().position(|key| key.address == of.address).unwrap();
    let signer = dev_signer([key]);
    let gwei = |n: u64| GasPrice::from_wei(u128::from(n) * 1_000_000_000).unwrap();
    let fees = Fees { gas_limit: 25_000, max_fee: gwei(price), max_priority_fee: Some(gwei(tip)) };
    signer.sign(vec![draft(of, nonce, value, fees)]).await.remove(0).unwrap()
}
