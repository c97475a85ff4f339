//! Decodes revert reasons.
//!
//! Owns no state. Reads `Error(string)` and `Panic(uint256)`, and shows everything else as hex.

use alloy_primitives::{U256, hex};
use tollgate_model::Text;

use super::votes::most_given;
use crate::endpoint::RpcError;

const ERROR: [u8; 4] = [0x08, 0xc3, 0x79, 0xa0];
const PANIC: [u8; 4] = [0x4e, 0x48, 0x7b, 0x71];

/// The reason in a node's error.
pub(super) fn reason_in(error: &RpcError) -> Text<2000> {
    let data = error.data.as_deref().and_then(revert_data);
    match data {
        Some(data) if !data.is_empty() => reason(&data),
        _ => Text::lossy(&error.message),
    }
}

/// The reason in the data of a revert.
pub(super) fn reason(data: &[u8]) -> Text<2000> {
    let text = match data.split_first_chunk::<4>() {
        Some((&ERROR, rest)) => string(rest),
        Some((&PANIC, rest)) if rest.len() == 32 => Some(panic(U256::from_be_slice(rest))),
        _ if data.is_empty() => Some("reverted without a reason".to_owned()),
        _ => None,
    };
    Text::lossy(&text.unwrap_or_else(|| format!("custom error {}", hex::encode_prefixed(data))))
}

/// The reason among those that endpoints tell: the one that two of them tell, or the only one. If they contradict
/// each other, all are told.
pub(super) fn agreed_reason(told: &[Text<2000>]) -> Option<Text<2000>> {
    let (reason, number) = most_given(told)?;
    if number > 1 || told.len() == 1 {
        return Some(reason.clone());
    }
    let all: Vec<_> = told.iter().map(Text::as_str).collect();
    Some(Text::lossy(&format!("endpoints tell different reasons: {}", all.join(" | "))))
}

/// The revert data within an error's data: hex alone, after a word, or inside JSON.
pub(super) fn revert_data(text: &str) -> Option<Vec<u8>> {
    let runs = text.match_indices("0x").filter_map(|(at, _)| {
        let digits = &text[at + 2..];
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        hex::decode(&digits[..end]).ok()
    });
    let runs: Vec<_> = runs.collect();
    let known = |run: &&Vec<u8>| run.starts_with(&ERROR) || run.starts_with(&PANIC);
    // A hash or an address is no revert data.
    let other = |run: &&Vec<u8>| ![20, 32].contains(&run.len());
    runs.iter().find(known).or_else(|| runs.iter().find(other)).cloned()
}

fn string(data: &[u8]) -> Option<String> {
    let word = |at: usize| {
        let bytes = data.get(at..at.checked_add(32)?)?;
        usize::try_from(U256::from_be_slice(bytes)).ok()
    };
    let at = word(0)?;
    let start = at.checked_add(32)?;
    let bytes = data.get(start..start.checked_add(word(at)?)?)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn panic(code: U256) -> String {
    let meaning = match u64::try_from(code) {
        Ok(0x00) => "generic",
        Ok(0x01) => "assertion failed",
        Ok(0x11) => "arithmetic overflow or underflow",
        Ok(0x12) => "division by zero",
        Ok(0x21) => "no such enum value",
        Ok(0x22) => "broken storage encoding",
        Ok(0x31) => "pop of an empty array",
        Ok(0x32) => "index out of bounds",
        Ok(0x41) => "out of memory",
        Ok(0x51) => "call of an uninitialised function",
        _ => "unknown",
    };
    format!("panic {code:#04x}: {meaning}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAYS_HI: &str = "0x08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000000000000000000000000000000000026869000000000000000000000000000000000000000000000000000000000000";

    fn read(text: &str) -> String {
        reason(&revert_data(text).unwrap()).as_str().to_owned()
    }

    #[test]
    fn a_reason_is_read_wherever_a_node_puts_it() {
        let hash = format!("0x{}", "ab".repeat(32));
        assert_eq!(read(SAYS_HI), "hi");
        assert_eq!(read(&format!("Reverted {SAYS_HI}")), "hi");
        let json = format!(r#"{{"{hash}":{{"error":"revert","return":"{SAYS_HI}"}}}}"#);
        assert_eq!(read(&json), "hi");
        assert_eq!(revert_data(&hash), None);
        assert_eq!(revert_data("no hex"), None);
    }

    #[test]
    fn panics_and_custom_errors_are_told_apart() {
        let panic = format!("0x4e487b71{:064x}", 0x11);
        assert_eq!(read(&panic), "panic 0x11: arithmetic overflow or underflow");
        assert_eq!(read("0xdeadbeef"), "custom error 0xdeadbeef");
        assert_eq!(reason(&[]).as_str(), "reverted without a reason");
    }

    #[test]
    fn reason_is_the_one_that_two_endpoints_tell_or_all_of_them() {
        let agreed = |told: &[&str]| {
            let told: Vec<_> = told.iter().map(|it| Text::lossy(it)).collect();
            agreed_reason(&told).map(|reason| reason.as_str().to_owned())
        };
        assert_eq!(agreed(&[]), None);
        assert_eq!(agreed(&["poor"]).as_deref(), Some("poor"));
        assert_eq!(agreed(&["paused", "poor", "poor"]).as_deref(), Some("poor"));
        let both = "endpoints tell different reasons: paused | poor";
        assert_eq!(agreed(&["paused", "poor"]).as_deref(), Some(both));
    }

    #[test]
    fn broken_data_is_shown_as_it_is() {
        for cut in 4..100 {
            let data = hex::decode(SAYS_HI).unwrap();
            assert!(!reason(&data[..cut]).as_str().is_empty());
        }
        let mut huge = hex::decode(SAYS_HI).unwrap();
        huge[4..36].fill(0xff);
        assert!(reason(&huge).as_str().starts_with("custom error 0x08c379a0"));
    }
}
