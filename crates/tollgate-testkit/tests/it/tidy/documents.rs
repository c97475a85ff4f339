//! Pages that readers can rely on: links lead somewhere, and translations have the same parts, commands and names.

use std::collections::BTreeSet;

use super::{File, check, text_of};

/// A page and its translation.
const TRANSLATIONS: [(&str, &str); 19] = [
    ("README.md", "README.zh-CN.md"),
    ("docs/integrating.md", "docs/zh-CN/integrating.md"),
    ("docs/operations/README.md", "docs/zh-CN/operations/README.md"),
    ("docs/operations/alerts.md", "docs/zh-CN/operations/alerts.md"),
    ("docs/operations/backup.md", "docs/zh-CN/operations/backup.md"),
    ("docs/operations/deploy.md", "docs/zh-CN/operations/deploy.md"),
    ("docs/operations/docker.md", "docs/zh-CN/operations/docker.md"),
    ("docs/operations/failure-modes.md", "docs/zh-CN/operations/failure-modes.md"),
    ("docs/operations/monitoring.md", "docs/zh-CN/operations/monitoring.md"),
    ("docs/operations/on-call.md", "docs/zh-CN/operations/on-call.md"),
    ("docs/operations/postgres.md", "docs/zh-CN/operations/postgres.md"),
    ("docs/operations/retention.md", "docs/zh-CN/operations/retention.md"),
    ("docs/operations/scale.md", "docs/zh-CN/operations/scale.md"),
    ("docs/operations/stuck.md", "docs/zh-CN/operations/stuck.md"),
    ("docs/operations/tls.md", "docs/zh-CN/operations/tls.md"),
    ("docs/operations/top-up.md", "docs/zh-CN/operations/top-up.md"),
    ("docs/operations/troubleshooting.md", "docs/zh-CN/operations/troubleshooting.md"),
    ("docs/operations/tuning.md", "docs/zh-CN/operations/tuning.md"),
    ("docs/operations/upgrade.md", "docs/zh-CN/operations/upgrade.md"),
];

/// The marks of a fenced block.
const FENCE: &str = "```";

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading() {
    check("correct these links", broken_links);
}

#[test]
fn every_operations_page_has_a_translation() {
    check("add a translation in docs/zh-CN, and its name to TRANSLATIONS", untranslated_pages);
}

#[test]
fn translations_have_the_headings_tables_and_code_of_the_original() {
    check("translate what changed; code is the same in all languages", stale_translations);
}

#[test]
fn translations_link_to_translations() {
    check("link to the page in the reader's language", links_to_originals);
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
            let is_fence = line.trim_start().starts_with(FENCE);
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

    /// The number of table rows below each heading; the first is that of the lines above all headings.
    fn rows(&self) -> Vec<usize> {
        let mut rows = vec![0];
        for line in &self.prose {
            if line.starts_with('#') {
                rows.push(0);
            } else if line.trim_start().starts_with('|') {
                *rows.last_mut().expect("begins with one") += 1;
            }
        }
        rows
    }

    /// The code in the prose (settings, commands, states, texts of logs). Formulas have words in them.
    fn names(&self) -> BTreeSet<String> {
        let prose = self.prose.join("\n");
        let spans = prose.split('`').skip(1).step_by(2);
        let spans = spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" "));
        spans.filter(|span| ![" / ", " × "].iter().any(|sign| span.contains(sign))).collect()
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

/// Compares the headings, table rows, code blocks and names of a translation with those of its original.
fn differences(original: &Page, translation: &Page) -> Vec<String> {
    let mut differences = Vec::new();
    let levels = |page: &Page| page.headings().map(|(level, _)| level).collect::<Vec<_>>();
    if levels(original) == levels(translation) {
        let titles = original.headings().zip(translation.headings());
        let renamed = titles.filter(|((_, one), (_, other))| is_identifier(one) && one != other);
        differences
            .extend(renamed.map(|((_, one), (_, other))| format!("heading {other} is not {one}")));
        let rows =
            original.headings().zip(original.rows().into_iter().zip(translation.rows()).skip(1));
        let shorter = rows.filter(|(_, (one, other))| other < one);
        differences.extend(shorter.map(|((_, title), (one, other))| {
            format!("{other} table rows below the heading of {title:?} in place of {one}")
        }));
    } else {
        let titles = |page: &Page| {
            page.headings().map(|(_, title)| title.to_owned()).collect::<Vec<_>>().join(" | ")
        };
        differences.push(format!(
            "other headings:\n    {}\n    {}",
            titles(original),
            titles(translation)
        ));
    }
    if original.code.len() != translation.code.len() {
        let counts = (translation.code.len(), original.code.len());
        differences.push(format!("{} code blocks in place of {}", counts.0, counts.1));
    }
    let pairs = original.code.iter().zip(&translation.code);
    let changed = pairs.filter(|(one, other)| one != other);
    differences.extend(changed.map(|(one, _)| format!("another form of\n{one}")));
    let names = translation.names();
    let missing: Vec<String> =
        original.names().into_iter().filter(|name| !names.contains(name)).collect();
    if !missing.is_empty() {
        differences.push(format!("no `{}`", missing.join("`, `")));
    }
    differences
}

/// Recognises the names of states, kinds and programs, which are not translated.
fn is_identifier(title: &str) -> bool {
    let has_only = |is_case: fn(char) -> bool| title.chars().all(|c| is_case(c) || c == '_');
    has_only(|c| c.is_ascii_lowercase()) || has_only(|c| c.is_ascii_uppercase())
}

fn stale_translations(files: &[File]) -> Vec<String> {
    let mut stale = Vec::new();
    for (original, translation) in TRANSLATIONS {
        let [Some(one), Some(other)] = [original, translation].map(|path| text_of(files, path))
        else {
            stale.push(format!("{original} or {translation} is not there"));
            continue;
        };
        let differences = differences(&Page::read(one), &Page::read(other));
        stale.extend(differences.iter().map(|what| format!("{translation}, {original}: {what}")));
    }
    stale
}

fn untranslated_pages(files: &[File]) -> Vec<String> {
    let is_page = |path: &str| path.starts_with("docs/operations/") && path.ends_with(".md");
    let is_translated = |path: &str| TRANSLATIONS.iter().any(|(original, _)| *original == path);
    let paths = files.iter().map(|file| file.path.as_str());
    paths.filter(|path| is_page(path) && !is_translated(path)).map(str::to_owned).collect()
}

/// Links of translations to pages that are translated themselves; a page may name its own original.
fn links_to_originals(files: &[File]) -> Vec<String> {
    let mut links = Vec::new();
    for (own, path) in TRANSLATIONS {
        for (number, link) in Page::read(text_of(files, path).unwrap_or_default()).links() {
            let target = resolve(path, link.split('#').next().unwrap_or(link));
            let translation = TRANSLATIONS.iter().find(|(original, _)| *original == target);
            if let Some((_, better)) = translation.filter(|(original, _)| *original != own) {
                links.push(format!("{path}:{number}: {link}, though {better} is there"));
            }
        }
    }
    links
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
    let original = "# One\n\nThe `key`, `a / b`:\n\n```sh\nrun\n```\n\n## two\n\n| x |\n";
    let translated = |text: &str| {
        let pairs = TRANSLATIONS.iter().flat_map(|(original_path, path)| {
            [File::new(original_path, original), File::new(path, text)]
        });
        stale_translations(&pairs.collect::<Vec<_>>()).len()
    };
    let good = "# 一\n\n`甲 / 乙`，`key`：\n\n```sh\nrun\n```\n\n## two\n\n| x |\n| y |\n";
    assert_eq!(translated(good), 0);
    let pages = TRANSLATIONS.len();
    for (part, changed, what) in [
        ("## two\n", "", "a heading is missing"),
        ("two", "二", "a name as heading is translated"),
        ("| x |\n| y |\n", "", "a table row is missing"),
        ("run", "walk", "another command"),
        ("```sh\nrun\n```\n", "", "no command"),
        ("`key`", "`other`", "a name is missing"),
    ] {
        assert_eq!(translated(&good.replace(part, changed)), pages, "{what}");
    }
    assert_eq!(stale_translations(&[]).len(), pages);
}

#[test]
fn untranslated_page_and_link_to_an_original_are_reported() {
    let added = [File::new("docs/operations/new.md", ""), File::new("docs/operations/tls.md", "")];
    assert_eq!(untranslated_pages(&added), ["docs/operations/new.md"]);
    let links = |text: &str| links_to_originals(&[File::new("docs/zh-CN/operations/tls.md", text)]);
    assert_eq!(links("[a](backup.md) [b](../../operations/tls.md) [c](../../config.md)"), [""; 0]);
    assert_eq!(links("\n[a](../../operations/backup.md#sqlite)").len(), 1);
}
