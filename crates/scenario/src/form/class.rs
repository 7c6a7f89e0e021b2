//! `[class.NAME]` and `[holding.NAME]`.

use std::fmt;

use serde::de::{self, EnumAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use quantity::{Bytes, Count, Share, Span};

/// `[class.NAME]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename = "Class")]
pub struct ClassForm {
    /// How large its files are.
    pub sizes: Sizes,
    /// Tape pools.
    pub copies: Vec<String>,
    /// Not packed from this size on.
    #[serde(default = "large")]
    pub large: Bytes,
    /// The size of a pack.
    #[serde(default = "pack")]
    pub pack: Bytes,
    /// A pack that is not full is sealed after so long.
    #[serde(default = "pack_age")]
    pub pack_age: Span,
    /// What of a pack is recalled.
    #[serde(default)]
    pub recall: Recall,
    /// The most pool space that it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_max: Option<Bytes>,
    /// How long a file stays in the pool at most; for ever if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Span>,
    /// Files of a data set.
    #[serde(default = "one")]
    pub data_set_files: u32,
    /// Which files go together into packs; the class's, if data sets have one file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gather: Option<GatherForm>,
    /// Files put one after the other that are of one size.
    #[serde(default = "one")]
    pub alike_files: u32,
    /// Its part of the drive time.
    #[serde(default = "one")]
    pub weight: u32,
    /// Drives kept for it.
    #[serde(default)]
    pub drives_min: u32,
    /// Most drives at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives_max: Option<u32>,
}

/// What is recalled when a file in a pack is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recall {
    /// That file.
    #[default]
    File,
    /// The whole pack.
    Pack,
}

/// Which files go together into packs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherForm {
    /// Those of a data set.
    DataSet,
    /// Those of the class, as they come.
    Class,
}

/// How large files are: one size, or a table that says its kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Sizes {
    /// All the same.
    Fixed(Bytes),
    /// By a law.
    Law(Law),
}

/// A law of sizes.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// All the same.
    Fixed(FixedSize),
    /// Lognormal.
    Lognormal(Lognormal),
    /// Each size as likely.
    Uniform(Uniform),
    /// Exponential.
    Exponential(Exponential),
    /// Parts of several.
    Mix(Mix),
    /// Measured.
    Quantiles(Quantiles),
    /// One by one.
    List(List),
}

/// `kind = "fixed"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FixedSize {
    /// The size.
    pub size: Bytes,
}

/// `kind = "lognormal"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lognormal {
    /// The mean size.
    pub mean: Bytes,
    /// The standard deviation of the natural logarithm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// 95 of 100 files are no larger; in the place of `spread`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<Bytes>,
    /// None is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Bytes>,
    /// None is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Bytes>,
}

/// `kind = "uniform"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Uniform {
    /// None is smaller.
    pub least: Bytes,
    /// None is larger.
    pub most: Bytes,
}

/// `kind = "exponential"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// The mean size.
    pub mean: Bytes,
    /// None is smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Bytes>,
    /// None is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<Bytes>,
}

/// `kind = "mix"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// The parts.
    pub parts: Vec<MixPart>,
}

/// An item of `parts`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MixPart {
    /// Its share of all files.
    pub share: Share,
    /// How large its files are.
    pub sizes: Sizes,
}

/// `kind = "quantiles"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Shares of files, rising from 0 % to 100 %.
    pub at: Vec<Share>,
    /// So large are the largest files of these shares.
    pub sizes: Vec<Bytes>,
    /// The mean, if it is known: sizes are scaled to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Bytes>,
}

/// `kind = "list"`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// In the order in which files are put.
    pub sizes: Vec<Bytes>,
}

impl Serialize for Sizes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Sizes::Fixed(size) => size.serialize(serializer),
            Sizes::Law(law) => law.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeOrLaw;
        impl<'de> Visitor<'de> for SizeOrLaw {
            type Value = Sizes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size (\"2GB\") or a law of sizes ({ kind = \"lognormal\", … })")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Sizes, E> {
                Bytes::parse(text).map(Sizes::Fixed).map_err(E::custom)
            }
            fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Sizes, A::Error> {
                Law::deserialize(de::value::EnumAccessDeserializer::new(access)).map(Sizes::Law)
            }
        }
        deserializer.deserialize_any(SizeOrLaw)
    }
}

/// `[holding.NAME]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Holding {
    /// Its class.
    pub class: String,
    /// How many files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Count>,
    /// How much, in the place of `files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Bytes>,
    /// Most files of a run; those of a data set if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_files: Option<u32>,
    /// Tapes that are written at the same time.
    #[serde(default = "one")]
    pub spread: u32,
    /// What a tape takes before the next is begun; its capacity if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill: Option<Bytes>,
    /// Files of which there is one more copy.
    #[serde(default)]
    pub duplicates: Share,
    /// Tapes over which these lie.
    #[serde(default)]
    pub duplicate_tapes: u32,
    /// Files that are in the pool at the beginning.
    #[serde(default)]
    pub resident: Share,
}

fn one() -> u32 {
    1
}

fn large() -> Bytes {
    Bytes(1 << 30)
}

fn pack() -> Bytes {
    Bytes(4 << 30)
}

fn pack_age() -> Span {
    Span(3_600_000_000)
}
