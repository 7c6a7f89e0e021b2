//! Sites that come with Kist: their figures are frozen, each with where it is from.

/// A built-in site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuiltInSite {
    /// The name by which scenarios ask for it.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
}

const SITES: &[BuiltInSite] = &[
    BuiltInSite { name: "example", text: include_str!("../sites/example.toml") },
    BuiltInSite { name: "gridka", text: include_str!("../sites/gridka.toml") },
    BuiltInSite { name: "kit", text: include_str!("../sites/kit.toml") },
    BuiltInSite { name: "sdsc", text: include_str!("../sites/sdsc.toml") },
];

/// All built-in sites.
#[must_use]
pub fn sites() -> &'static [BuiltInSite] {
    SITES
}

/// The built-in site of a name.
#[must_use]
pub fn site(name: &str) -> Option<&'static BuiltInSite> {
    SITES.iter().find(|site| site.name == name)
}
