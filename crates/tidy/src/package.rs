//! A crate of the workspace, as far as the rules look at it.

/// What a dependency is needed for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DependencyKind {
    /// The crate itself.
    Normal,
    /// Its build script.
    Build,
    /// Its tests, examples and benchmarks.
    Dev,
}

/// A dependency of a crate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dependency {
    /// The name of the package depended on.
    pub name: String,
    /// What for.
    pub kind: DependencyKind,
    /// Whether it is a crate of this workspace.
    pub is_ours: bool,
    /// The features asked for, without the default ones.
    pub features: Vec<String>,
}

/// A crate of the workspace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its direct dependencies.
    pub dependencies: Vec<Dependency>,
    /// Its features, each with what it turns on.
    pub features: Vec<(String, Vec<String>)>,
}
