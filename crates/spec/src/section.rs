//! One declaration per table: struct, defaults, serde form, reader and schema come from the same lines.
//!
//! ```text
//! section! {
//!     /// `[lora]`
//!     pub struct Lora {
//!         /// Rank.
//!         pub r: usize = 128 => at_least(1.0),
//!         /// Checkpoint every so many steps.
//!         pub save_steps: u64 = 20 => at_least(1.0).execution(),
//!     }
//!     flatten { pub training: Training }
//! }
//! ```

use crate::key::Key;
use crate::mistake::Mistakes;
use crate::node::Node;
use crate::value::Value;

/// A table of the pipeline file whose keys are known.
pub trait Section {
    /// Takes the value of one key. False when the table has no such key; a wrong value is noted in `out`.
    fn set(&mut self, name: &str, node: &Node, out: &mut Mistakes) -> bool;

    /// Calls `visit` for every key, in the order of the declaration, with its present value.
    fn each(&self, visit: &mut dyn FnMut(&Key, &dyn Value));

    /// All keys, in the order of the declaration.
    fn keys(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        self.each(&mut |key, _| keys.push(key.clone()));
        keys
    }
}

macro_rules! rule {
    () => {
        $crate::key::any()
    };
    ($rule:expr) => {
        $rule
    };
}

macro_rules! section {
    (
        $(#[doc = $doc:expr])*
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:expr])*
                pub $field:ident : $ty:ty = $default:expr $(=> $rule:expr)?
            ),* $(,)?
        }
        $(flatten {
            $( $(#[doc = $part_doc:expr])* pub $part:ident : $part_ty:ty ),* $(,)?
        })?
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $name {
            $( $(#[doc = $field_doc])* pub $field: $ty, )*
            $($( $(#[doc = $part_doc])* #[serde(flatten)] pub $part: $part_ty, )*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $default, )*
                    $($( $part: Default::default(), )*)?
                }
            }
        }

        impl $crate::section::Section for $name {
            fn set(
                &mut self,
                name: &str,
                node: &$crate::node::Node,
                out: &mut $crate::mistake::Mistakes,
            ) -> bool {
                #[allow(unused_imports)]
                use $crate::key::*;
                match name {
                    $(
                        stringify!($field) => {
                            let rule = $crate::section::rule!($($rule)?);
                            if let Some(value) = <$ty as $crate::value::Read>::read(node, &rule, out) {
                                self.$field = value;
                            }
                            true
                        }
                    )*
                    _ => false $($( || self.$part.set(name, node, out) )*)?,
                }
            }

            fn each(&self, visit: &mut dyn FnMut(&$crate::key::Key, &dyn $crate::value::Value)) {
                #[allow(unused_imports)]
                use $crate::key::*;
                $(
                    let key = Key {
                        name: stringify!($field),
                        doc: concat!($($field_doc),*).trim_ascii(),
                        ty: <$ty as $crate::value::Read>::TYPE,
                        rule: $crate::section::rule!($($rule)?),
                    };
                    visit(&key, &self.$field);
                )*
                $($( self.$part.each(visit); )*)?
            }
        }
    };
}

/// An enum whose variants are words in the file.
macro_rules! choice {
    (
        $(#[doc = $doc:expr])*
        pub enum $name:ident {
            $( $(#[doc = $variant_doc:expr])* $variant:ident = $word:literal ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $( $(#[doc = $variant_doc])* #[serde(rename = $word)] $variant, )*
        }

        impl $name {
            /// The word in the file.
            pub const fn as_str(self) -> &'static str {
                match self { $( $name::$variant => $word, )* }
            }
        }

        impl $crate::value::Value for $name {
            fn to_json(&self) -> serde_json::Value {
                self.as_str().into()
            }
        }

        impl $crate::value::Read for $name {
            const TYPE: $crate::key::Type = $crate::key::Type::Choice(&[
                $( $crate::key::Choice {
                    name: $word,
                    doc: concat!($($variant_doc),*).trim_ascii(),
                }, )*
            ]);

            fn read(
                node: &$crate::node::Node,
                _: &$crate::key::Rule,
                out: &mut $crate::mistake::Mistakes,
            ) -> Option<Self> {
                $crate::value::choice(node, &Self::TYPE, &[$( ($word, $name::$variant) ),*], out)
            }
        }
    };
}

pub(crate) use {choice, rule, section};
