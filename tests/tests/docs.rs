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

/// Every row of docs/concepts/faults.md has a test that exists or a reason, and every row that a test names is there.
#[test]
fn every_fault_has_its_test_and_every_such_test_its_row() {
    let page = read(&root().join("docs/concepts/faults.md"));
    let mut sources = files(&root().join("crates"), "rs");
    sources.extend(files(&root().join("tests"), "rs"));
    let code: String = sources.iter().map(|path| read(path)).collect();
    let tests: BTreeSet<&str> = code.split("fn ").skip(1).filter_map(|rest| rest.split('(').next()).collect();

    let mut rows = BTreeSet::new();
    for line in page.lines().filter(|line| line.starts_with("| E")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [row, fault, here] = cells[..] else { panic!("three cells: {line}") };
        assert!(rows.insert(row.to_lowercase()), "{row} is there twice");
        assert!(fault.len() > 10 && here.len() > 15, "{row} says too little");
    }
    let quoted = page.split('`').skip(1).step_by(2).filter(|text| text.matches('_').count() > 2);
    for name in quoted {
        assert!(tests.contains(name), "{name} is named in faults.md and is no test");
    }
    for test in &tests {
        let named = test.split('_').take_while(|word| word.len() > 1 && word.starts_with('e'));
        for row in named.filter(|word| word[1..].bytes().all(|byte| byte.is_ascii_digit())) {
            assert!(rows.contains(row), "{test} tests {row}, which is not in faults.md");
        }
    }
}

/// All `E0` followed by three digits, which is how error codes are written.
fn codes(text: &str) -> Vec<String> {
    let code = |(at, _)| {
        let word = text.get(at..at + 5)?;
        word[2..].bytes().all(|byte| byte.is_ascii_digit()).then(|| word.to_owned())
    };
    text.match_indices("E0").filter_map(code).collect()
}
