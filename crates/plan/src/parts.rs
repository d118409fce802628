//! Names and values that a fingerprint is made of.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a stage's result depends on, by name: `config.kl_coef` → `0.02`.
///
/// Kept as one text, since a plan may have a hundred thousand stages with dozens of parts each: sorted names and
/// values, each ended by a zero byte, which neither TOML values as JSON nor paths can contain.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Parts(Box<str>);

/// Ends a name or a value.
const END: char = '\0';

impl Parts {
    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut texts = self.0.split_terminator(END);
        std::iter::from_fn(move || Some((texts.next()?, texts.next()?)))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// The rest of each name that begins with `prefix`, with its value.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value)))
    }
}

impl From<BTreeMap<String, String>> for Parts {
    fn from(parts: BTreeMap<String, String>) -> Self {
        let mut text =
            String::with_capacity(parts.iter().map(|(name, value)| name.len() + value.len() + 2).sum());
        for word in parts.iter().flat_map(|(name, value)| [name, value]) {
            text.extend(word.chars().filter(|&c| c != END));
            text.push(END);
        }
        Self(text.into())
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Serialize for Parts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_that_were_put_in() {
        let map: BTreeMap<String, String> = [("b", ""), ("a", "1"), ("input.x", "\u{1}é\n"), ("", "e")]
            .map(|(k, v)| (k.into(), v.into()))
            .into();
        let parts = Parts::from(map.clone());
        assert_eq!(parts.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect::<BTreeMap<_, _>>(), map);
        assert_eq!((parts.get("b"), parts.get("c")), (Some(""), None));
        assert_eq!(parts.below("input.").collect::<Vec<_>>(), [("x", "\u{1}é\n")]);
        let text = serde_json::to_string(&parts).unwrap();
        assert_eq!(text, serde_json::to_string(&map).unwrap());
        assert_eq!(serde_json::from_str::<Parts>(&text).unwrap(), parts);
    }
}
