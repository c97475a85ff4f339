//! The funds of an account and the limits of blocks: facts that certain refusals rest on.

use crate::amount::Wei;
use crate::ids::Nonce;

/// Limits of the newest blocks, as far as they are cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChainLimits {
    /// The highest block gas limit that an endpoint reported; `None` if none has.
    pub block_gas: Option<u64>,
    /// Call data has a floor price (EIP-7623) according to every endpoint's head, and the limits are confirmed.
    pub has_calldata_floor: bool,
    /// Two endpoints have reported, or the chain has one endpoint only, or no second one has for long. Nothing
    /// is refused for limits that one of several endpoints reports (I16).
    pub is_confirmed: bool,
}

/// One endpoint's report of an account's funds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Funds {
    pub balance: Wei,
    /// The mined count at the head, read after the balance: transactions below it are already paid.
    pub mined: Nonce,
}

/// The balance among those that endpoints report (I16): the median of three, the higher one of two. An endpoint that
/// reports too little makes no account look poor while another one answers. `None` if there are none.
pub fn agreed_balance(balances: &[Wei]) -> Option<Wei> {
    let mut sorted = balances.to_vec();
    sorted.sort_unstable_by_key(|balance| balance.0);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use alloy_primitives::U256;

    use super::*;

    #[test]
    fn balance_is_the_median_of_three_and_the_higher_of_two() {
        let agreed = |balances: &[u64]| {
            let balances: Vec<_> = balances.iter().map(|wei| Wei(U256::from(*wei))).collect();
            agreed_balance(&balances)
        };
        let wei = |wei: u64| Some(Wei(U256::from(wei)));
        assert_eq!(agreed(&[]), None);
        assert_eq!(agreed(&[7]), wei(7));
        assert_eq!((agreed(&[0, 7]), agreed(&[7, 0])), (wei(7), wei(7)));
        assert_eq!((agreed(&[7, 0, 8]), agreed(&[7, 900, 8])), (wei(7), wei(8)));
    }
}
