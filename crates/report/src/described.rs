//! What is told of a scenario.

/// What a scenario is, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// Its title.
    pub title: String,
    /// What it is about: paragraphs, with an empty line between two.
    pub text: String,
    /// What it was run with.
    pub parameters: Vec<Parameter>,
    /// The scenario file as it was written.
    pub source: String,
    /// What the model leaves out, a sentence each.
    pub left_out: Vec<String>,
}

/// Something that a scenario was run with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parameter {
    /// Under which heading it is listed; those of one group follow each other.
    pub group: String,
    /// Its name.
    pub name: String,
    /// Its value with its unit: one for all variants, or one for each.
    pub values: Vec<String>,
}
