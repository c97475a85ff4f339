//! Agreement on the gas of a call among several endpoints (I16).
//!
//! Pure functions. Too little gas makes a transaction fail, and a failure is paid for; gas that is not used
//! is not paid, only reserved. So of two estimates that are close the higher one counts. If they are far
//! apart, a third endpoint decides: the estimate in the middle counts. Where there is no third, the lower
//! one counts if the other endpoint finds that the call succeeds with it, else the higher one. An
//! estimate above the gas of a block is impossible and counts only if there is no other.

use crate::fees::gas_limit;

/// Estimates of the same call that are further apart than this factor contradict each other. Heads that
/// are a block apart explain less.
const APART_MAX: u64 = 2;

/// The consequence of some estimates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GasAgreement {
    /// This estimate counts.
    Use(u64),
    /// Two estimates are far apart: ask a third endpoint. If there is none, ask the endpoint of the
    /// higher one whether the call succeeds with this gas limit.
    Disputed { lower: u64, higher: u64, try_with: u64 },
}

/// Compares estimates, of which none may be above `most` if another one is not. `None` if there are none.
pub fn agree_on_gas(estimates: &[u64], most: u64) -> Option<GasAgreement> {
    let mut sorted = estimates.to_vec();
    sorted.sort_unstable();
    if sorted.first()? <= &most {
        sorted.retain(|estimate| *estimate <= most);
    }
    Some(match sorted[..] {
        [lower, higher] if lower.saturating_mul(APART_MAX) < higher => {
            GasAgreement::Disputed { lower, higher, try_with: gas_limit(lower).min(most) }
        }
        [_, higher] => GasAgreement::Use(higher),
        _ => GasAgreement::Use(sorted[sorted.len() / 2]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 36_000_000;

    fn agreed(estimates: &[u64]) -> Option<GasAgreement> {
        agree_on_gas(estimates, BLOCK)
    }

    #[test]
    fn higher_of_two_estimates_counts_if_they_are_close() {
        assert_eq!(agreed(&[50_000, 60_000]), Some(GasAgreement::Use(60_000)));
        assert_eq!(agreed(&[60_000, 50_000]), Some(GasAgreement::Use(60_000)));
        assert_eq!(agreed(&[50_000]), Some(GasAgreement::Use(50_000)));
        assert_eq!(agreed(&[]), None);
    }

    #[test]
    fn estimates_far_apart_are_disputed_until_there_is_a_third() {
        for (one, other, median) in [(50_000, 21_000, 50_000), (50_000, 30_000_000, 51_000)] {
            let (lower, higher) = (one.min(other), one.max(other));
            let try_with = lower + lower / 5;
            let disputed = GasAgreement::Disputed { lower, higher, try_with };
            assert_eq!(agreed(&[one, other]), Some(disputed));
            assert_eq!(agreed(&[other, one]), Some(disputed));
            assert_eq!(agreed(&[one, other, 51_000]), Some(GasAgreement::Use(median)));
        }
    }

    #[test]
    fn impossible_estimate_counts_only_alone() {
        assert_eq!(agreed(&[50_000, u64::MAX]), Some(GasAgreement::Use(50_000)));
        assert_eq!(agreed(&[u64::MAX]), Some(GasAgreement::Use(u64::MAX)));
    }
}
