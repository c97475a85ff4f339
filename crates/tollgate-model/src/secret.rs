//! Masking of secrets in errors, logs and reports.

use crate::access::SECRET_PREFIX;

/// This many hex digits may be a private key of 64, or a mistyped one. An address has 40.
const KEY_DIGITS_MIN: usize = 48;
/// This many digits in groups without both letters and decimal digits among them are no key.
const GROUPED_DIGITS_MAX: usize = 160;
/// The length of 32 bytes in base64, without padding.
const KEY_BASE64_LEN: usize = 43;
/// Base64 of a key has at least this many letters of each case that are no hex digits (13 on average).
const BASE64_LETTERS_MIN: usize = 4;
/// Replaces a possible private key in hex.
const MASK: &str = "(hex digits not shown)";
/// Replaces a possible private key in base64.
const BASE64_MASK: &str = "(base64 not shown)";
/// The number of words of the shortest mnemonic phrase (BIP-39).
const MNEMONIC_WORDS_MIN: usize = 12;
/// Replaces the secret part of an API key.
const API_KEY_MASK: &str = "(secret not shown)";
/// Replaces a possible mnemonic phrase.
const WORDS_MASK: &str = "(words not shown)";

/// Masks everything in a text that may be a private key: hex digits with or without 0x, in one run or in
/// groups; base64; mnemonic phrases. A key is often pasted where a file name or an address belongs.
///
/// Hashes look the same, so this must not be used for texts that contain them. Decimal digits alone
/// are a number, unless 0x precedes them.
pub fn masked(text: &str) -> String {
    without_base64(&without_hex(&without_mnemonics(&without_api_keys(text))))
}

/// Masks the secret part of every API key; its public id stays.
fn without_api_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(SECRET_PREFIX) {
        let after = start + SECRET_PREFIX.len();
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let run = rest[after..].bytes().take_while(is_part).count();
        let id = rest[after..after + run].find('_').map_or(0, |id| id + 1);
        shown.push_str(&rest[..after + id]);
        if run > id {
            shown.push_str(API_KEY_MASK);
        }
        rest = &rest[after + run..];
    }
    shown.push_str(rest);
    shown
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

fn without_hex(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(length) = hex_key_len(rest, shown.ends_with("0x")) {
            shown.push_str(MASK);
            rest = &rest[length..];
            continue;
        }
        let digits = hex_digits(rest);
        let next = rest[digits..].chars().next().map_or(0, char::len_utf8);
        shown.push_str(&rest[..digits + next]);
        rest = &rest[digits + next..];
    }
    shown
}

fn hex_digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_hexdigit).count()
}

/// The length of a possible private key at the start of a text: hex digits in one run, or in groups of
/// one length (the last may be shorter) with the same separator between them.
fn hex_key_len(text: &str, is_hex: bool) -> Option<usize> {
    let group = hex_digits(text);
    let has = |text: &str, is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    if group >= KEY_DIGITS_MIN {
        return (is_hex || has(&text[..group], u8::is_ascii_alphabetic)).then_some(group);
    }
    let separator = &text[group..][..separator_len(&text[group..])];
    if group < 2 || separator.is_empty() {
        return None;
    }
    let (mut end, mut digits, mut is_key) = (group, group, false);
    while let Some(next) = text[end..].strip_prefix(separator) {
        let more = hex_digits(next);
        if more == 0 || more > group {
            break;
        }
        end += separator.len() + more;
        digits += more;
        is_key = is_key || {
            let key = text[..end].replace("0x", "");
            has(&key, u8::is_ascii_alphabetic) && has(&key, u8::is_ascii_digit)
        };
        if more < group || (!is_key && digits > GROUPED_DIGITS_MAX) {
            break;
        }
    }
    (is_key && digits >= KEY_DIGITS_MIN).then_some(end)
}

/// The length of what may stand between two groups of hex digits.
fn separator_len(text: &str) -> usize {
    let marks =
        text.len() - text.trim_start_matches([' ', '\t', '\r', '\n', ',', ':', '-', '_']).len();
    if marks > 0 && text[marks..].starts_with("0x") { marks + 2 } else { marks }
}

/// Masks every stretch of base64 that has the length of a key and the mix of letters of random bytes.
/// Paths and addresses have no such mix.
fn without_base64(text: &str) -> String {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(byte);
    let bytes = text.as_bytes();
    let mut is_hidden = vec![false; bytes.len()];
    let mut start = 0;
    while start < bytes.len() {
        let run = bytes[start..].iter().take_while(|byte| is_base64(byte)).count();
        for (at, window) in bytes[start..start + run].windows(KEY_BASE64_LEN).enumerate() {
            let count = |is: fn(&u8) -> bool| window.iter().filter(|byte| is(byte)).count();
            if count(|byte| (b'G'..=b'Z').contains(byte)) >= BASE64_LETTERS_MIN
                && count(|byte| (b'g'..=b'z').contains(byte)) >= BASE64_LETTERS_MIN
                && count(u8::is_ascii_digit) > 0
            {
                is_hidden[start + at..start + at + KEY_BASE64_LEN].fill(true);
            }
        }
        start += run + 1;
    }
    let mut shown = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        match is_hidden[at] {
            true if at == 0 || !is_hidden[at - 1] => shown.push_str(BASE64_MASK),
            true => {}
            false => shown.push(letter),
        }
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
    fn key_in_groups_or_base64_is_masked() {
        let groups = |length: usize, separator: &str| {
            let groups =
                KEY.as_bytes().chunks(length).map(|group| std::str::from_utf8(group).unwrap());
            groups.collect::<Vec<_>>().join(separator)
        };
        for text in [
            groups(4, " "),
            groups(8, "-"),
            groups(2, ":"),
            groups(16, "_"),
            groups(32, "\n"),
            groups(10, " "),
            format!("0x{}", groups(2, ", 0x")),
            format!("--listen: {:?} must be", groups(4, " ")),
        ] {
            let shown = masked(&text);
            assert!(shown.contains(MASK), "{shown}");
            assert!(!shown.contains("d238") && !shown.contains("4b"), "{shown}");
        }
        let base64 = "rAl0vsOaF+NrpKa00jj/lEustHjL7V78rnhNe/Ty/4A";
        for text in [
            format!("{base64}="),
            base64.to_owned(),
            base64.replace('/', "_").replace('+', "-"),
            format!("/run/secrets/{base64}.txt: no such file"),
            format!("\"{base64}=\" must be"),
        ] {
            let shown = masked(&text);
            assert!(shown.contains(BASE64_MASK) && !shown.contains("EustHjL7V"), "{shown}");
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
        let known = crate::B256::ZERO;
        let store = crate::port::StoreError::OtherChain { chain_id: chain, known }.to_string();
        for text in ["", &store, "tollgate.toml", "é", address, &KEY[..40], eleven, prose] {
            assert_eq!(masked(text), text);
        }
        let number = "1157920892373161954235709850086879078532699846656405640394575840079131296399";
        let ids = "0198c0de-7a11-7000-8000-00000000cafe 0198c0de-7a11-7000-8000-00000000beef";
        let path = format!("/api/v1/submitters/{address}/nonces/17/recyclable?cursor={address}");
        let numbers =
            "10 20 30 40 50 60 70 80 90 10 20 30 40 50 60 70 80 90 10 20 30 40 50 60 70 80";
        let folder = "/var/lib/tollgate/production/databases/europe-1/tollgate.db and more of it";
        for text in [number, ids, &path, numbers, folder] {
            assert_eq!(masked(text), text);
        }
        let in_hex = format!("0x{}", &number[..64]);
        assert_eq!(masked(&in_hex), format!("0x{MASK}"), "hex, because it says so");
    }
}
