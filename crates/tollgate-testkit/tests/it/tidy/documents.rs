//! Pages that readers can rely on: links lead somewhere, and translations have the same parts and commands.

use std::collections::BTreeSet;

use super::{File, check, text_of};

/// A page and its translation.
const TRANSLATIONS: [(&str, &str); 2] =
    [("README.md", "README.zh-CN.md"), ("docs/integrating.md", "docs/zh-CN/integrating.md")];

/// The marks of a fenced block.
const FENCE: &str = "```";

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    check("correct these links", broken_links);
}

#[test]
fn translations_have_the_headings_and_the_code_of_the_original() {
    check("translate what changed; code blocks are the same in all languages", stale_translations);
}

/// A page without its code, and its code.
struct Page {
    /// The lines outside of fenced blocks; the others are empty, so that lines keep their numbers.
    prose: Vec<String>,
    /// The fenced blocks, with their languages.
    code: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let (mut prose, mut code) = (Vec::new(), Vec::<String>::new());
        let mut is_inside = false;
        for line in text.lines() {
            let is_fence = line.starts_with(FENCE);
            if is_fence && !is_inside {
                code.push(String::new());
            }
            if let Some(block) = code.last_mut().filter(|_| is_inside || is_fence) {
                *block += &format!("{line}\n");
                prose.push(String::new());
            } else {
                prose.push(line.to_owned());
            }
            is_inside ^= is_fence;
        }
        Self { prose, code }
    }

    fn headings(&self) -> impl Iterator<Item = (usize, &str)> {
        self.prose.iter().filter_map(|line| {
            let level = line.bytes().take_while(|byte| *byte == b'#').count();
            (level > 0).then(|| (level, line[level..].trim()))
        })
    }

    /// The names under which headings are linked.
    fn anchors(&self) -> BTreeSet<String> {
        let slug = |text: &str| -> String {
            let plain = text.to_lowercase().replace(' ', "-");
            plain.chars().filter(|c| c.is_alphanumeric() || ['-', '_'].contains(c)).collect()
        };
        self.headings().map(|(_, text)| slug(text)).collect()
    }

    /// The targets of inline links, with the numbers of their lines.
    fn links(&self) -> Vec<(usize, &str)> {
        let mut links = Vec::new();
        for (line, number) in self.prose.iter().zip(1..) {
            for part in line.split("](").skip(1) {
                links.extend(part.split_once(')').map(|(target, _)| (number, target)));
            }
        }
        links
    }
}

/// The path that a relative link of a page stands for.
fn resolve(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

fn broken_links(files: &[File]) -> Vec<String> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut broken = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for (number, link) in Page::read(&file.text).links() {
            // Pictures are not text, and not in the list.
            if link.contains("://") || link.starts_with("mailto:") || link.ends_with(".png") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => file.path.clone(),
                path => resolve(&file.path, path),
            };
            let folder = format!("{target}/");
            let is_there = paths.contains(target.as_str())
                || paths
                    .range(folder.as_str()..)
                    .next()
                    .is_some_and(|path| path.starts_with(&folder));
            let has_anchor = anchor.is_empty()
                || text_of(files, &target)
                    .is_some_and(|text| Page::read(text).anchors().contains(anchor));
            if !is_there || !has_anchor {
                broken.push(format!("{}:{number}: {link}", file.path));
            }
        }
    }
    broken
}

fn stale_translations(files: &[File]) -> Vec<String> {
    let mut stale = Vec::new();
    for (original, translation) in TRANSLATIONS {
        let [Some(one), Some(other)] = [original, translation].map(|path| text_of(files, path))
        else {
            stale.push(format!("{original} or {translation} is not there"));
            continue;
        };
        let (one, other) = (Page::read(one), Page::read(other));
        let levels = |page: &Page| page.headings().map(|(level, _)| level).collect::<Vec<_>>();
        if levels(&one) != levels(&other) {
            let titles = |page: &Page| {
                page.headings().map(|(_, title)| title.to_owned()).collect::<Vec<_>>().join(" | ")
            };
            stale.push(format!(
                "{translation}: other headings than {original}:\n    {}\n    {}",
                titles(&one),
                titles(&other)
            ));
        }
        if one.code.len() != other.code.len() {
            let counts = (other.code.len(), one.code.len());
            stale.push(format!("{translation}: {} code blocks in place of {}", counts.0, counts.1));
        }
        let pairs = one.code.iter().zip(&other.code);
        stale.extend(
            pairs
                .filter(|(one, other)| one != other)
                .map(|(one, _)| format!("{translation}: another form of\n{one}")),
        );
    }
    stale
}

#[test]
fn broken_link_and_stale_translation_are_reported() {
    let page = "# A\n\n[b](docs/b.md#the-one_two) [docs](docs/) [a](#a) [x](https://x.y/z)\n";
    let tree = |readme: &str| {
        let b = "## `The` one_two!\n\n```sh\n# no heading, [no link](gone.md)\n```\n\n[up](../README.md)\n";
        vec![File::new("README.md", readme), File::new("docs/b.md", b)]
    };
    assert_eq!(broken_links(&tree(page)), [""; 0]);
    for bad in ["[b](docs/c.md)", "[b](docs/b.md#two)", "[b](doc/)", "[b](#b)"] {
        assert_eq!(broken_links(&tree(bad)).len(), 1, "{bad}");
    }
    let original = "# One\n\n```sh\nrun\n```\n\n## Two\n";
    let translated = |text: &str| {
        let pairs = TRANSLATIONS.iter().flat_map(|(original_path, path)| {
            [File::new(original_path, original), File::new(path, text)]
        });
        stale_translations(&pairs.collect::<Vec<_>>()).len()
    };
    assert_eq!(translated("# 一\n\n```sh\nrun\n```\n\n## 二\n"), 0);
    let pages = TRANSLATIONS.len();
    assert_eq!(translated("# 一\n\n```sh\nrun\n```\n"), pages, "a heading is missing");
    assert_eq!(translated("# 一\n\n```sh\nwalk\n```\n\n## 二\n"), pages, "another command");
    assert_eq!(translated("# 一\n\n## 二\n"), pages, "no command");
    assert_eq!(stale_translations(&[]).len(), pages);
}
