//! The example file that `tollgate config example` prints.

use std::fmt::Write;

use super::keys::KEYS;

/// Columns of a comment, without its sign.
const WIDTH: usize = 94;

/// A complete file with the defaults, each explained.
pub(crate) fn example() -> String {
    let mut page = "# Tollgate's settings with their defaults. Those without one are commented out.\n\
                    # Flags take precedence over variables, variables over this file. Durations are\n\
                    # like 500ms, 10s, 5m or 1h; amounts are in wei, or like \"100 gwei\" or\n\
                    # \"0.5 ether\".\n"
        .to_owned();
    let mut section = "";
    for key in KEYS.iter() {
        if key.section != section {
            section = key.section;
            let _ = write!(page, "\n[{section}]\n");
        }
        page.push('\n');
        let about = format!("{} ({})", key.doc(), key.field.type_words());
        for line in wrapped(&about.replace('`', "")) {
            let _ = writeln!(page, "# {line}");
        }
        if !key.field.derived.is_empty() {
            let words = key.field.derived;
            let _ = writeln!(page, "# Default: {}.", words.replace('`', ""));
        }
        let sign = if key.field.default.is_some() { "" } else { "# " };
        let _ = writeln!(page, "{sign}{}", key.field.toml_line());
    }
    page
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
