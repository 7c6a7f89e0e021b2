//! The kept corpus goes through all targets with every `cargo test`, without libFuzzer.

use std::fs;
use std::path::Path;

/// Beside each input of the corpus, all that begins as it does, and it with one byte changed.
fn near(input: &[u8], mut give: impl FnMut(&[u8])) {
    const STEPS: usize = 64;
    give(input);
    let step = (input.len() / STEPS).max(1);
    let mut changed = input.to_vec();
    for at in (0..input.len()).step_by(step) {
        give(&input[..at]);
        for mask in [0x01, 0x80, 0xff] {
            changed[at] ^= mask;
            give(&changed);
            changed[at] ^= mask;
        }
    }
}

#[test]
fn every_target_has_a_corpus_that_it_survives() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for target in fuzz::TARGETS {
        let directory = corpus.join(target.name);
        let mut inputs: Vec<_> = fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for path in inputs {
            near(&fs::read(&path).unwrap(), target.run);
        }
    }
    let known = |name: &str| fuzz::TARGETS.iter().any(|target| target.name == name);
    for entry in fs::read_dir(&corpus).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known(&name), "the corpus has '{name}', which is no target");
    }
}
