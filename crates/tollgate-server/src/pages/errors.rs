//! The pages about error codes, as HTML for people. They are written in a little of Markdown
//! (`docs/errors/*.md`): headings, paragraphs, lists, tables as they are, code.

use askama::Template;
use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::Response;
use tollgate_api::ErrorCode;

use super::layout::{Frame, html};
use crate::http::Chains;

#[derive(Template)]
#[template(path = "error_code.html")]
struct ErrorCodePage {
    frame: Frame,
    code: &'static str,
    blocks: Vec<Block>,
}

#[derive(PartialEq, Eq, Debug)]
enum Block {
    Heading(String),
    /// Stretches of text; every second one is code.
    Text(Vec<String>),
    Item(Vec<String>),
    Code(String),
}

/// Returns whether a request comes from somebody who reads HTML. Programs get the text.
pub(crate) fn wants_html(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|it| it.contains("text/html"))
}

/// The page about a code.
pub(crate) fn page(chains: &Chains, code: ErrorCode) -> Response {
    let blocks = blocks(code.page());
    html(&ErrorCodePage { frame: Frame::without_viewer(chains), code: code.name(), blocks })
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut code: Option<Vec<&str>> = None;
    for line in text.lines().skip_while(|line| line.starts_with("# ")) {
        match (&mut code, line) {
            (Some(_), line) if line.starts_with("```") => {
                blocks.push(Block::Code(code.take().unwrap_or_default().join("\n")));
            }
            (Some(lines), line) => lines.push(line),
            (None, line) if line.starts_with("```") => code = Some(Vec::new()),
            (None, "") => {}
            (None, line) => blocks.push(match line.split_once(' ') {
                Some(("##", heading)) => Block::Heading(heading.to_owned()),
                Some(("-" | "*", item)) => Block::Item(stretches(item)),
                _ => Block::Text(stretches(line)),
            }),
        }
    }
    blocks
}

fn stretches(line: &str) -> Vec<String> {
    line.split('`').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_a_code_has_its_headings_paragraphs_and_example() {
        let text = "# busy\n\nFull. `busy`.\n\n## When\n\n- one\n\n```json\n{\n}\n```\n";
        let part = |text: &str| stretches(text);
        let expected = [
            Block::Text(part("Full. `busy`.")),
            Block::Heading("When".to_owned()),
            Block::Item(part("one")),
            Block::Code("{\n}".to_owned()),
        ];
        assert_eq!(blocks(text), expected);
        assert_eq!(part("a `b` c"), ["a ", "b", " c"], "every second one is code");
    }

    #[test]
    fn every_code_has_a_page_with_headings() {
        for code in ErrorCode::ALL {
            let blocks = blocks(code.page());
            let is_heading = |block: &&Block| matches!(block, Block::Heading(_));
            assert!(blocks.iter().filter(is_heading).count() >= 2, "{}", code.name());
        }
    }
}
