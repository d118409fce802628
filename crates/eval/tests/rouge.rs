//! ROUGE and its stemmer against the output of PyPI `rouge-score` 0.1.2 and NLTK (`tests/golden/rouge.py`).

use eval::rouge::{rouge, stem};

fn golden(name: &str) -> serde_json::Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a119_stems_equal_nltks() {
    let mut count = 0;
    for pair in golden("porter.json").as_array().unwrap().iter().flat_map(|part| part.as_array().unwrap()) {
        let (word, expected) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        assert_eq!(stem(word), expected, "{word}");
        count += 1;
    }
    assert!(count > 8000, "{count} words");
}

#[test]
fn a118_scores_equal_rouge_score() {
    let rows = golden("rouge.json");
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 300);
    for row in rows {
        let (target, prediction) = (row["target"].as_str().unwrap(), row["prediction"].as_str().unwrap());
        for (key, use_stemmer) in [("plain", false), ("stemmed", true)] {
            let means = rouge(target, prediction, use_stemmer);
            let ours = [means.rouge1, means.rouge2, means.rouge_l, means.rouge_lsum];
            for (index, score) in ours.iter().enumerate() {
                let expected: Vec<f64> = serde_json::from_value(row[key][index].clone()).unwrap();
                for (value, expected) in [score.p, score.r, score.f].iter().zip(expected) {
                    let close = (value - expected).abs() <= 1e-12;
                    assert!(close, "{key} {index}: {score:?} for {target:?} | {prediction:?}");
                }
            }
        }
    }
}

#[test]
fn golden_table_of_known_faults() {
    let f = |target, prediction, stem| {
        let s = rouge(target, prediction, stem);
        [s.rouge1.f, s.rouge2.f, s.rouge_l.f, s.rouge_lsum.f].map(|f| (f * 1e4).round() / 1e4)
    };
    assert_eq!(f("police killed the gunman", "the gunman police killed", false), [1.0, 0.6667, 0.5, 0.5]);
    let lines = ("first line here\nsecond line there", "second line there\nfirst line here");
    assert_eq!(f(lines.0, lines.1, false), [1.0, 0.8, 0.5, 1.0]);
    assert_eq!(f("你好世界", "你好世界", true), [0.0; 4]);
    assert_eq!(f("10 \u{212a} water", "10 k water", false), [1.0; 4]);
    assert_eq!(f("\u{130}stanbul", "istanbul", false), [0.0; 4]);
    assert_eq!(f("running runners ran quickly", "run runner run quick", false), [0.0; 4]);
    assert_eq!(f("running runners ran quickly", "run runner run quick", true)[..3], [0.5, 0.3333, 0.5]);
    assert_eq!(f("", "", true), [0.0; 4]);
}
