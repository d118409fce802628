//! The pages hold together: links lead somewhere, and every error code has its heading.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace")
}

/// Files with an extension, in the folder and those below it.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder reads") {
        let path = entry.expect("the entry reads").path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn links_lead_to_files() {
    let mut pages = files(&root().join("docs"), "md");
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name)));
    let mut broken = Vec::new();
    for page in pages {
        let text = read(&page);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains("://")) {
            if !page.with_file_name(target).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_index() {
    let docs = root().join("docs");
    let index = read(&docs.join("README.md"));
    for page in files(&docs, "md") {
        let name = page.strip_prefix(&docs).expect("below docs").display().to_string();
        assert!(
            name == "README.md" || index.contains(&format!("({name})")),
            "{name} is not in docs/README.md"
        );
    }
}

#[test]
fn every_error_code_has_one_heading_and_every_heading_a_code() {
    let sources = files(&root().join("crates"), "rs");
    let in_code: BTreeSet<String> = sources
        .iter()
        .filter(|path| path.components().any(|part| part.as_os_str() == "src"))
        .flat_map(|path| codes(&read(path)))
        .collect();
    let mut headings = BTreeSet::new();
    for page in files(&root().join("docs/errors"), "md") {
        for line in read(&page).lines().filter(|line| line.starts_with("## E0")) {
            let code = codes(line).remove(0);
            assert!(headings.insert(code), "{line} is there twice");
        }
    }
    assert_eq!(in_code, headings);
}

/// All `E0` followed by three digits, which is how error codes are written.
fn codes(text: &str) -> Vec<String> {
    let code = |(at, _)| {
        let word = text.get(at..at + 5)?;
        word[2..].bytes().all(|byte| byte.is_ascii_digit()).then(|| word.to_owned())
    };
    text.match_indices("E0").filter_map(code).collect()
}
