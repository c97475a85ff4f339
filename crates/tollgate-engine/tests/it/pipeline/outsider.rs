//! Whoever else has a key, and signs and sends past the engine.

use tollgate_devchain::dev_accounts;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::signer::{SignedTx, Signer, TxDraft, TxKind};
use tollgate_model::{Address, Bytes, GasPrice, Nonce, Submitter, U256, Wei};
use tollgate_signer::{Key, LocalSigner};

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
    let accounts = dev_accounts();
    let key = accounts.iter().find(|key| key.address == of.address).unwrap();
    let signer = LocalSigner::new([Key::from_bytes(&key.private_key).unwrap()]);
    let gwei = |n: u64| GasPrice::from_wei(u128::from(n) * 1_000_000_000).unwrap();
    let fees = Fees { gas_limit: 25_000, max_fee: gwei(price), max_priority_fee: Some(gwei(tip)) };
    let draft = TxDraft {
        chain_id: of.chain_id,
        from: of.address,
        nonce,
        to: Some(Address::repeat_byte(0xee)),
        value: Wei(U256::from(value)),
        data: Bytes::new(),
        access_list: Vec::new(),
        fees,
        kind: TxKind::DynamicFee,
    };
    signer.sign(vec![draft]).await.remove(0).unwrap()
}
