//! Masking of secrets in errors, logs and reports.

/// This many hex digits in a row may be a private key of 64, or a mistyped one. An address has 40.
const KEY_DIGITS_MIN: usize = 48;
/// Replaces a possible private key.
const MASK: &str = "(hex digits not shown)";
/// The number of words of the shortest mnemonic phrase (BIP-39).
const MNEMONIC_WORDS_MIN: usize = 12;
/// Replaces a possible mnemonic phrase.
const WORDS_MASK: &str = "(words not shown)";

/// Masks everything in a text that may be a private key: long runs of hex digits, with or without 0x, and
/// mnemonic phrases. A key is often pasted where a file name or an address belongs.
///
/// Hashes look the same, so this must not be used for texts that contain them.
pub fn masked(text: &str) -> String {
    without_long_hex(&without_mnemonics(text))
}

/// Masks twelve or more words in a row that could all be in the mnemonic word list.
fn without_mnemonics(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut run: Vec<&str> = Vec::new();
    let end = |run: &mut Vec<&str>, shown: &mut String| match run.len() {
        MNEMONIC_WORDS_MIN.. => {
            let after = &run[run.len() - 1][bare_len(run[run.len() - 1])..];
            shown.push_str(WORDS_MASK);
            shown.push_str(after);
            run.clear();
        }
        _ => shown.extend(run.drain(..)),
    };
    for piece in text.split_inclusive(|c: char| !c.is_ascii_lowercase()) {
        if !(3..=8).contains(&bare_len(piece)) {
            end(&mut run, &mut shown);
            shown.push_str(piece);
            continue;
        }
        run.push(piece);
        // The words of a phrase are separated by white space only.
        if !piece.ends_with(char::is_whitespace) {
            end(&mut run, &mut shown);
        }
    }
    end(&mut run, &mut shown);
    shown
}

/// The length of a piece without its trailing separator.
fn bare_len(piece: &str) -> usize {
    piece.bytes().take_while(u8::is_ascii_lowercase).count()
}

fn without_long_hex(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits >= KEY_DIGITS_MIN {
            shown.push_str(MASK);
            rest = &rest[digits..];
            continue;
        }
        let next = rest[digits..].chars().next().map_or(0, char::len_utf8);
        shown.push_str(&rest[..digits + next]);
        rest = &rest[digits + next..];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn key_is_masked_wherever_it_stands() {
        for text in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            format!("0x{KEY}"),
            format!("/run/secrets/0x{KEY}.txt: there is no such file"),
            format!("\"{KEY}é"),
            format!("--flag={KEY},{KEY}"),
            format!("{KEY}00"),
            KEY[1..].to_owned(),
        ] {
            let shown = masked(&text);
            assert!(shown.contains(MASK), "{shown}");
            assert!(!shown.to_lowercase().contains(&KEY[1..33]), "{shown}");
        }
    }

    #[test]
    fn mnemonic_phrase_is_masked_wherever_it_stands() {
        let phrase = "test test test test test test test test test test test junk";
        for text in
            [phrase.to_owned(), format!("\"{phrase}\": no such file"), format!("({phrase})")]
        {
            let shown = masked(&text);
            assert!(shown.contains(WORDS_MASK) && !shown.contains("junk"), "{shown}");
        }
        assert_eq!(masked(&format!("\"{phrase}\": gone")), format!("\"{WORDS_MASK}\": gone"));
        let longer = phrase.replace("junk", "junk legal winner thank year wave sausage worth");
        assert_eq!(masked(&longer), WORDS_MASK);
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let address = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
        let eleven = "test test test test test test test test test test test";
        let prose = "the file can't be read: there is no such file or folder, or it is not yours";
        let chain = crate::ChainId::new(31_337).unwrap();
        let store = crate::port::StoreError::OtherChain { chain_id: chain }.to_string();
        for text in ["", &store, "tollgate.toml", "é", address, &KEY[..40], eleven, prose] {
            assert_eq!(masked(text), text);
        }
    }
}
