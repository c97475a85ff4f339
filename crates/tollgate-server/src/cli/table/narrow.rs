//! Makes single cells narrower. Pure.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Stands for what was left out.
const ELLIPSIS: char = '…';
/// Characters of an id that stay at its beginning and at its end: an address and a hash stay recognisable.
const BEGIN: usize = 8;
const END: usize = 4;

/// An id, a hash or an address without its middle. A text with other characters, and one that is short already,
/// stays as it is.
pub(in crate::cli) fn without_middle(id: &str) -> String {
    let is_id = id.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_id || id.len() <= BEGIN + END + 1 {
        return id.to_owned();
    }
    format!("{}{ELLIPSIS}{}", &id[..BEGIN], &id[id.len() - END..])
}

/// The beginning of a text, as much as fits the width.
pub(in crate::cli) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for char in text.chars() {
        used += char.width().unwrap_or_default();
        if used > width {
            break;
        }
        cut.push(char);
    }
    cut.push(ELLIPSIS);
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_loses_its_middle_and_text_its_end() {
        assert_eq!(without_middle("0198c0de-7a11-7000-8000-00000000cafe"), "0198c0de…cafe");
        assert_eq!(without_middle("order-1"), "order-1");
        assert_eq!(without_middle("-"), "-");
        let chinese = "提币提币提币提币提币";
        assert_eq!(without_middle(chinese), chinese, "no id");
        assert_eq!(cut("withdrawal", 20), "withdrawal");
        assert_eq!(cut("withdrawal", 8), "withdra…");
        assert_eq!(cut(chinese, 8), "提币提…");
        assert_eq!(cut(chinese, 8).width(), 7, "half a character is none");
    }
}
