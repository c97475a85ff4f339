//! The fuzz target of this crate (`docs/fuzzing.md`).

use tollgate_model::ChainId;

use crate::{Key, recover};

/// Decodes any bytes as a transaction that was signed elsewhere, and as the text of a key.
///
/// # Panics
/// If the decoder does, or if it accepts bytes that it would not repeat.
pub fn raw_transaction(data: &[u8]) {
    for chain in [1, 31_337] {
        let Ok(chain) = ChainId::new(chain) else { continue };
        if let Ok(decoded) = recover(data, chain) {
            assert_eq!(
                &decoded.raw[..],
                data,
                "the bytes that are kept are those that were signed"
            );
            let again = recover(&decoded.raw, chain);
            assert_eq!(again.map(|again| again.draft).ok().as_ref(), Some(&decoded.draft));
        }
    }
    if let Ok(text) = std::str::from_utf8(data) {
        // The reason must not repeat the text, which may be a key.
        if let Err(refused) = Key::from_hex(text) {
            // Neither a key nor a part of one has blanks; the words of a refusal have.
            let may_be_key = text.len() >= 40 && !text.contains(' ');
            assert!(!may_be_key || !refused.to_string().contains(text), "the key is repeated");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn raw_transaction_target_survives_its_corpus_and_changes_to_it() {
        tollgate_fuzzkit::run_seeded("raw_transaction", super::raw_transaction);
    }
}
