//! The rules, applied to this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidy::{
    Dependency, DependencyKind, Foreign, Package, check_assertions, check_faults, check_layers,
    check_licences, check_links, check_outside, check_source, undocumented,
};

/// Directories that are not part of the repository.
const SKIPPED: [&str; 5] = [".git", "target", "kist-data", "tmp", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files below `directory` with this ending, relative to `root`, in order.
fn files(root: &Path, directory: &Path, ending: &str, found: &mut Vec<(String, String)>) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(Result::unwrap).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (name, path) = (entry.file_name().to_string_lossy().into_owned(), entry.path());
        if entry.file_type().unwrap().is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                files(root, &path, ending, found);
            }
        } else if name.ends_with(ending) {
            let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push((relative, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn all(ending: &str) -> Vec<(String, String)> {
    let (root, mut found) = (root(), Vec::new());
    files(&root, &root, ending, &mut found);
    assert!(!found.is_empty(), "there are files with the ending {ending}");
    found
}

/// What cargo knows of the workspace.
fn metadata(arguments: &[&str]) -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let all = ["metadata", "--format-version", "1"].iter().chain(arguments);
    let output = Command::new(cargo).args(all).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages() -> Vec<Package> {
    let metadata = metadata(&["--no-deps", "--offline"]);
    let packages: Vec<Package> = metadata["packages"].as_array().unwrap().iter().map(package).collect();
    assert!(packages.iter().any(|package| package.name == "kist"), "the program is among the packages");
    packages
}

fn package(value: &Value) -> Package {
    let features = value["features"].as_object().unwrap().iter();
    Package {
        name: value["name"].as_str().unwrap().to_owned(),
        dependencies: value["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
        features: features.map(|(name, on)| (name.clone(), strings(on))).collect(),
    }
}

fn dependency(value: &Value) -> Dependency {
    Dependency {
        name: value["name"].as_str().unwrap().to_owned(),
        kind: match value["kind"].as_str() {
            None => DependencyKind::Normal,
            Some("build") => DependencyKind::Build,
            Some("dev") => DependencyKind::Dev,
            Some(other) => panic!("cargo knows a kind of dependency that this test does not: {other}"),
        },
        is_ours: value["path"].is_string(),
        features: strings(&value["features"]),
    }
}

fn foreign(value: &Value) -> Foreign {
    let text = |of: &str| value[of].as_str().map(str::to_owned);
    let name = format!("{} {}", text("name").unwrap(), text("version").unwrap());
    Foreign { name, licence: text("license"), source: text("source") }
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

fn none(violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{} violations of the house rules:\n{}",
        violations.len(),
        violations.join("\n")
    );
}

#[test]
fn dependencies_point_down() {
    none(&check_layers(&packages()));
}

#[test]
fn http_json_xml_and_the_embedded_engine_stay_where_they_belong() {
    none(&check_outside(&packages()));
}

#[test]
fn fault_injection_reaches_no_released_program() {
    none(&check_faults(&packages()));
}

// Those of other systems are no part of what is distributed, and need not be there.
#[test]
fn licences_go_with_ours_and_all_comes_from_one_registry() {
    let rules: toml::Table = fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let allowed = rules["licenses"]["allow"].as_array().unwrap().iter();
    let allowed: Vec<String> = allowed.map(|licence| licence.as_str().unwrap().to_owned()).collect();
    let metadata = metadata(&["--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let packages: Vec<Foreign> = metadata["packages"].as_array().unwrap().iter().map(foreign).collect();
    assert!(packages.iter().any(|package| package.source.is_some()), "there are crates from elsewhere");
    none(&check_licences(&packages, &allowed));
}

#[test]
fn every_dependency_is_explained() {
    let page = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    none(&undocumented(&packages(), &page));
}

#[test]
fn sources_keep_the_house_rules() {
    let violations: Vec<String> =
        all(".rs").iter().flat_map(|(path, text)| check_source(path, text)).collect();
    none(&violations);
}

#[test]
fn crates_that_hold_data_state_what_they_take_for_granted() {
    none(&check_assertions(&all(".rs")));
}

#[test]
fn links_lead_to_files() {
    let root = root();
    let exists = |path: &str| root.join(path).exists();
    let pages = all(".md");
    let violations: Vec<String> =
        pages.iter().flat_map(|(path, text)| check_links(path, text, &exists)).collect();
    none(&violations);
}
