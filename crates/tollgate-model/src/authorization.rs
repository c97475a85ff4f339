//! Authorizations of set-code transactions (EIP-7702), and which of them are accepted.
//!
//! Pure. An authorization that takes effect uses a nonce of its authority without a transaction of that account.
//! For an account of Tollgate this nonce must have come from the account's own cursor, by a reservation.

use std::cmp::Ordering;

use alloy_primitives::{Address, B256, U256, keccak256};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::{ChainId, Nonce, TxHash};

/// The most authorizations of one transaction (I13).
pub const AUTHORIZATIONS_MAX: usize = 64;

/// The first byte of what an authority signs.
const MAGIC: u8 = 5;

/// The permission of an account to run a contract's code in its place.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Authorization {
    /// The chain; 0 is any.
    pub chain_id: u64,
    /// The contract; zero ends a delegation.
    pub address: Address,
    /// The nonce of the authority that it uses.
    pub nonce: u64,
    /// The account that has signed it, or whose key Tollgate signs it with.
    pub authority: Address,
    /// `None` until Tollgate has signed it.
    pub signature: Option<AuthorizationSignature>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthorizationSignature {
    pub y_parity: bool,
    pub r: U256,
    pub s: U256,
}

impl Authorization {
    /// The hash that its authority signs: keccak256(0x05 ‖ rlp([chainId, address, nonce])).
    pub fn hash(&self) -> B256 {
        let mut fields = Vec::with_capacity(48);
        push_number(&mut fields, self.chain_id);
        fields.push(0x80 + 20);
        fields.extend(self.address);
        push_number(&mut fields, self.nonce);
        // At most 39 bytes: the short form of a list.
        let head = [MAGIC, 0xc0 + fields.len() as u8];
        keccak256([&head, fields.as_slice()].concat())
    }
}

/// Appends a number in RLP.
fn push_number(to: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let digits = &bytes[number.leading_zeros() as usize / 8..];
    if !matches!(digits, [..=0x7f]) {
        to.push(0x80 + digits.len() as u8);
    }
    to.extend(digits);
}

/// The facts about the authority of an authorization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authority {
    /// The account that sends the transaction.
    Sender,
    /// Not an account of Tollgate on this chain.
    Foreign,
    /// Another account of Tollgate on this chain.
    Own {
        /// The hash for which a caller has reported the nonce as used.
        used_for: Option<TxHash>,
        /// The account's mined count.
        mined: Nonce,
        /// This node has its key.
        has_key: bool,
    },
}

/// The reason why an authorization is not accepted.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum AuthorizationRefused {
    #[error(
        "{0} is the account that sends: its authorization would use the nonce after the transaction's. Let another \
         account send it, or sign and send the transaction yourself with two reserved nonces"
    )]
    BySender(Address),
    #[error("it is for chain {0}, and has no effect here")]
    WrongChain(u64),
    #[error("it is for every chain, and would use a nonce of {0} on all of them: name the chain")]
    EveryChain(Address),
    #[error("it is not signed, and this node has no key of {0}")]
    NoKey(Address),
    #[error(
        "nonce {nonce} of {authority} is not reserved for it: reserve it, and report it as used with txHash {hash}"
    )]
    NotReserved { authority: Address, nonce: u64, hash: B256 },
    /// Transactions of the authority come first. They are mined by themselves: ask again.
    #[error(
        "{authority} has mined {mined} nonces, and the authorization has effect only at nonce {nonce}"
    )]
    Early { authority: Address, nonce: u64, mined: Nonce },
    #[error(
        "{authority} has mined {mined} nonces: nonce {nonce} is used, and the authorization has no effect"
    )]
    Spent { authority: Address, nonce: u64, mined: Nonce },
}

/// Judges one authorization of a transaction on this chain.
///
/// # Errors
/// [`AuthorizationRefused`]. A foreign authority's nonce is not looked at: a wrong one has no effect.
pub fn judge(
    item: &Authorization,
    chain_id: ChainId,
    of: Authority,
) -> Result<(), AuthorizationRefused> {
    let Authorization { authority, nonce, .. } = *item;
    if item.chain_id != 0 && item.chain_id != chain_id.get() {
        return Err(AuthorizationRefused::WrongChain(item.chain_id));
    }
    let (used_for, mined, has_key) = match of {
        Authority::Sender => return Err(AuthorizationRefused::BySender(authority)),
        Authority::Foreign if item.signature.is_none() => {
            return Err(AuthorizationRefused::NoKey(authority));
        }
        Authority::Foreign => return Ok(()),
        Authority::Own { used_for, mined, has_key } => (used_for, mined, has_key),
    };
    if item.chain_id == 0 {
        return Err(AuthorizationRefused::EveryChain(authority));
    }
    if item.signature.is_none() && !has_key {
        return Err(AuthorizationRefused::NoKey(authority));
    }
    let hash = item.hash();
    if used_for != Some(hash) {
        return Err(AuthorizationRefused::NotReserved { authority, nonce, hash });
    }
    match mined.get().cmp(&nonce) {
        Ordering::Less => Err(AuthorizationRefused::Early { authority, nonce, mined }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(AuthorizationRefused::Spent { authority, nonce, mined }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAIN: u64 = 300;

    fn item() -> Authorization {
        let (address, authority) = (Address::repeat_byte(0x22), Address::repeat_byte(1));
        Authorization { chain_id: CHAIN, address, nonce: 7, authority, signature: None }
    }

    fn judged(item: &Authorization, of: Authority) -> Result<(), AuthorizationRefused> {
        judge(item, ChainId::new(CHAIN).unwrap(), of)
    }

    fn own(used_for: Option<TxHash>, mined: u64) -> Authority {
        Authority::Own { used_for, mined: Nonce::new(mined).unwrap(), has_key: true }
    }

    #[test]
    fn authorization_of_an_own_account_needs_its_reserved_nonce_and_all_before_it_mined() {
        let hash = item().hash();
        assert_eq!(judged(&item(), own(Some(hash), 7)), Ok(()));
        let authority = item().authority;
        let unreserved = AuthorizationRefused::NotReserved { authority, nonce: 7, hash };
        assert_eq!(judged(&item(), own(None, 7)), Err(unreserved.clone()));
        assert_eq!(judged(&item(), own(Some(TxHash::ZERO), 7)), Err(unreserved));
        let mined = Nonce::new(6).unwrap();
        let early = AuthorizationRefused::Early { authority, nonce: 7, mined };
        assert_eq!(judged(&item(), own(Some(hash), 6)), Err(early));
        let mined = Nonce::new(8).unwrap();
        let spent = AuthorizationRefused::Spent { authority, nonce: 7, mined };
        assert_eq!(judged(&item(), own(Some(hash), 8)), Err(spent), "it never has an effect");
    }

    #[test]
    fn authorization_by_the_sender_for_every_chain_or_without_a_key_is_refused() {
        let by = item().authority;
        assert_eq!(
            judged(&item(), Authority::Sender),
            Err(AuthorizationRefused::BySender(by)),
            "it would use a nonce of the cursor"
        );
        let any = Authorization { chain_id: 0, ..item() };
        let refused = judged(&any, own(Some(any.hash()), 7));
        assert_eq!(refused, Err(AuthorizationRefused::EveryChain(by)));
        assert_eq!(judged(&item(), Authority::Foreign), Err(AuthorizationRefused::NoKey(by)));
        let other = Authorization { chain_id: 1, ..item() };
        assert_eq!(judged(&other, Authority::Foreign), Err(AuthorizationRefused::WrongChain(1)));
    }

    #[test]
    fn signed_authorization_of_a_foreign_account_is_accepted_whatever_its_nonce() {
        let signature =
            Some(AuthorizationSignature { y_parity: false, r: U256::ONE, s: U256::ONE });
        for chain_id in [0, CHAIN] {
            let signed = Authorization { chain_id, signature, ..item() };
            assert_eq!(judged(&signed, Authority::Foreign), Ok(()));
        }
    }
}
