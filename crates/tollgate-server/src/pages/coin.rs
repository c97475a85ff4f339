//! Amounts of a chain's coin, with its symbol where the chain is known.

use super::format::{count, shifted};

/// Digits after the point of an amount in a table.
const DECIMALS_MAX: usize = 6;
/// Digits after the point of an amount that stands large on a page.
const DECIMALS_LARGE: usize = 3;

/// The symbol of a chain's coin; empty for a chain that is not known.
pub(crate) const fn symbol(chain_id: u64) -> &'static str {
    match chain_id {
        // Ethereum, its test networks, development chains, and the rollups whose coin is ether.
        1 | 17_000 | 560_048 | 11_155_111 | 1_337 | 31_337 => "ETH",
        10 | 130 | 324 | 480 | 1_101 | 1_868 | 8_453 | 34_443 | 42_161 | 42_170 | 57_073
        | 59_144 | 81_457 | 84_532 | 421_614 | 534_352 | 7_777_777 | 11_155_420 => "ETH",
        56 | 97 | 204 => "BNB",
        137 | 80_002 => "POL",
        100 | 10_200 => "xDAI",
        43_113 | 43_114 => "AVAX",
        25 => "CRO",
        143 => "MON",
        146 => "S",
        196 => "OKB",
        250 => "FTM",
        295 => "HBAR",
        999 => "HYPE",
        1_284 => "GLMR",
        1_329 => "SEI",
        5_000 => "MNT",
        8_217 => "KAIA",
        42_220 => "CELO",
        80_094 => "BERA",
        _ => "",
    }
}

/// Wei as an amount of the chain's coin; what the last shown digit leaves out is cut, and told by `…`.
pub(crate) fn coins(wei: &str, chain_id: u64) -> String {
    with_symbol(shifted(wei, 18, DECIMALS_MAX), chain_id)
}

/// Wei as a number for a large figure: fewer digits, whose cut is not marked, and no symbol. The title has the
/// whole amount.
pub(crate) fn coins_large(wei: &str) -> String {
    shifted(wei, 18, DECIMALS_LARGE).trim_end_matches('…').to_owned()
}

/// Wei as an amount of the chain's coin with all its digits.
pub(crate) fn coins_whole(wei: &str, chain_id: u64) -> String {
    with_symbol(shifted(wei, 18, usize::MAX), chain_id)
}

/// A rate of spending in words: coins per day, with three digits that count.
pub(crate) fn per_day(coins: f64, chain_id: u64) -> String {
    let digits = match coins {
        coins if coins >= 100.0 => 0,
        coins if coins >= 1.0 => 2,
        coins if coins > 0.0 => (2.0 - coins.log10().floor()).clamp(2.0, 18.0) as usize,
        _ => 0,
    };
    let amount = match coins {
        coins if coins >= 1_000.0 => count(coins as u64),
        coins => format!("{coins:.digits$}"),
    };
    format!("{} a day", with_symbol(amount, chain_id))
}

fn with_symbol(amount: String, chain_id: u64) -> String {
    match symbol(chain_id) {
        "" => amount,
        symbol => format!("{amount} {symbol}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_has_the_symbol_of_a_known_chain_and_none_of_another() {
        let amount = "9993117004123456789012";
        assert_eq!(coins(amount, 1), "9,993.117004… ETH");
        assert_eq!(coins(amount, 56), "9,993.117004… BNB");
        assert_eq!(coins(amount, 987_654_321), "9,993.117004…");
        assert_eq!(coins_large(amount), "9,993.117");
        assert_eq!(coins_whole(amount, 1), "9,993.117004123456789012 ETH");
    }

    #[test]
    fn small_amount_keeps_its_first_digits_at_any_size() {
        assert_eq!(coins_large("21123456789000"), "0.000021");
        assert_eq!(coins_large("0"), "0");
    }

    #[test]
    fn rate_has_three_digits_that_count() {
        assert_eq!(per_day(0.0123456, 1), "0.0123 ETH a day");
        assert_eq!(per_day(1.5, 137), "1.50 POL a day");
        assert_eq!(per_day(1234.5, 1), "1,234 ETH a day");
        assert_eq!(per_day(0.0, 1), "0 ETH a day");
    }
}
