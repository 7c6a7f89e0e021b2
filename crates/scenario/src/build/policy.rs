//! The policy that a server with the same settings would give its scheduler, tape pools, and what is foreign.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, LibraryId, ShareId, TapePoolId};
use scheduler::{ClassPolicy, LibraryPolicy, PRIORITY_MAX, Policy, SharePolicy, SidePolicy, TapePoolPolicy};

use super::finding::{Finding, limited, missing, wrong};
use super::{index, span};
use crate::form::{ClassForm, CopyRule, Foreign, Labels, Marks, ReadOrder, Scenario, Tape, TapePool};
use crate::limits::{INDEX_BYTES_A_FILE_MAX, TAPE_POOLS_MAX};
use crate::model;
use crate::model::{LibraryIndex, TapePoolModel, TapeWork};

/// The largest weight of a class, as the server has it.
const WEIGHT_MAX: u32 = 1_000_000;
/// The largest window of requests.
const WINDOW_MAX: u32 = 10_000_000;

/// All tape pools.
pub fn tape_pools(form: &Scenario) -> Result<Vec<TapePoolModel>, Finding> {
    let found = form.tape_pool.0.len() as u64;
    limited(&["tape_pool"], "tape pools", found, TAPE_POOLS_MAX as u64, "TAPE_POOLS_MAX")?;
    let only = if form.library.0.len() == 1 { Some(0) } else { None };
    let pool = |(name, pool): &(String, TapePool)| {
        let path = ["tape_pool", name.as_str(), "library"];
        let library = match (&pool.library, only) {
            (Some(library), _) => index(&path, "library", &form.library, library)?,
            (None, Some(only)) => only,
            (None, None) => return missing(&path),
        };
        Ok(TapePoolModel { name: name.clone(), library: LibraryIndex(library) })
    };
    form.tape_pool.iter().map(pool).collect()
}

/// The policy.
pub fn policy(form: &Scenario) -> Result<Policy, Finding> {
    check(form)?;
    let tape = &form.tape;
    let pools = tape_pools(form)?;
    let classes = || (1_u16..).zip(form.class.iter());
    let pool_policies = (1_u16..).zip(form.tape_pool.iter()).zip(&pools);
    let side = |min, max: Option<u32>| SidePolicy { drives_min: as_usize(min), drives_max: most(max) };
    Ok(Policy {
        classes: classes().map(|(id, (name, form))| (ClassId(id), class_policy(name, form))).collect(),
        tape_pools: pool_policies
            .map(|((id, (_, pool)), model)| (TapePoolId(id), pool_policy(form, pool, model)))
            .collect(),
        shares: classes().map(|(id, (name, form))| (ShareId(id), share_policy(name, form))).collect(),
        libraries: libraries(form),
        share_half_life: span(tape.share_half_life),
        recall_age: span(tape.recall_age),
        recall_bytes: ByteCount(tape.recall_bytes.0),
        recall_files: tape.recall_files.map_or(u64::MAX, |files| files.0),
        recall_at_once: tape.recall_at_once.map_or(PRIORITY_MAX + 1, |priority| priority as u8),
        starvation: span(tape.starvation),
        recall: side(tape.recall_drives_min, tape.recall_drives_max),
        migration: side(tape.migration_drives_min, tape.migration_drives_max),
        mounts_at_once_max: most(Some(tape.mounts_at_once).filter(|most| *most > 0)),
        dismount_delay: span(tape.dismount_delay),
        remount_delay: span(tape.remount_delay),
        remount_bytes: ByteCount(tape.remount_bytes.map_or(u64::MAX, |bytes| bytes.0)),
        retry_delay: span(tape.retry_delay),
    })
}

fn as_usize(number: u32) -> usize {
    number as usize
}

fn most(number: Option<u32>) -> usize {
    number.map_or(usize::MAX, as_usize)
}

fn libraries(form: &Scenario) -> BTreeMap<LibraryId, LibraryPolicy> {
    let policy = |(id, (name, library)): (u16, &(String, crate::form::Library))| {
        let policy = LibraryPolicy { name: name.clone(), mount_cost_percent: library.mount_cost_percent };
        (LibraryId(id), policy)
    };
    (0_u16..).zip(form.library.iter()).map(policy).collect()
}

fn class_policy(name: &str, form: &ClassForm) -> ClassPolicy {
    ClassPolicy { name: name.to_owned(), pack_bytes: ByteCount(form.pack.0), pack_age: span(form.pack_age) }
}

fn share_policy(name: &str, form: &ClassForm) -> SharePolicy {
    SharePolicy {
        name: format!("of class {name}"),
        weight: form.weight,
        drives_min: as_usize(form.drives_min),
        drives_max: most(form.drives_max),
        has_pool_max: form.pool_max.is_some(),
    }
}

fn pool_policy(form: &Scenario, pool: &TapePool, model: &TapePoolModel) -> TapePoolPolicy {
    TapePoolPolicy {
        name: model.name.clone(),
        mount_bytes: ByteCount(pool.mount_bytes.0),
        mount_age: span(pool.mount_age),
        drives_min: as_usize(pool.drives_min),
        drives_max: as_usize(pool.drives_max),
        open_tapes_max: most(pool.open_tapes_max),
        share: payer(form, &model.name),
        library: Some(LibraryId(model.library.0)),
    }
}

/// Whose share writing to a tape pool is charged to, as the server has it: that of its only class, if that
/// class was given one, else one that is nobody's.
fn payer(form: &Scenario, pool: &str) -> ShareId {
    let mut writers = (1_u16..)
        .zip(form.class.iter())
        .filter(|(_, (_, class))| class.copies.iter().any(|copy| copy == pool));
    let given = |class: &ClassForm| (class.weight, class.drives_min, class.drives_max) != (1, 0, None);
    match (writers.next(), writers.next()) {
        (Some((id, (_, class))), None) if given(class) => ShareId(id),
        _ => ShareId(0),
    }
}

/// Priorities, weights and numbers of drives against each other and the drives that there are; the rules are
/// the server's, but that a limit may be above the drives that there are.
fn check(form: &Scenario) -> Result<(), Finding> {
    let drives_of = |library: &crate::form::Library| {
        library.drives.0.iter().fold(0_u32, |sum, group| sum.saturating_add(group.count))
    };
    let drives = form.library.iter().fold(0_u32, |sum, (_, it)| sum.saturating_add(drives_of(it)));
    check_tape(&form.tape, drives)?;
    for ((name, pool), model) in form.tape_pool.iter().zip(tape_pools(form)?) {
        let library = &form.library.0[super::library_of(form, &model)].1;
        let path = |key| ["tape_pool", name.as_str(), key];
        check_limits(&path("drives_min"), pool.drives_min, &path("drives_max"), Some(pool.drives_max), {
            drives_of(library)
        })?;
        if pool.open_tapes_max == Some(0) {
            let problem = "it is at least 1: without a tape nothing is written";
            return wrong(&path("open_tapes_max"), problem);
        }
    }
    for (name, class) in form.class.iter() {
        let path = |key| ["class", name.as_str(), key];
        if !(1..=WEIGHT_MAX).contains(&class.weight) {
            return wrong(&path("weight"), &format!("it is 1 to {WEIGHT_MAX}"));
        }
        check_limits(&path("drives_min"), class.drives_min, &path("drives_max"), class.drives_max, drives)?;
    }
    let kept_of_pools = form.tape_pool.iter().map(|(_, pool)| pool.drives_min);
    let kept = form.class.iter().map(|(_, class)| class.drives_min).chain(kept_of_pools);
    check_sum(&["tape_pool"], kept, drives, "classes and tape pools")
}

fn check_tape(tape: &Tape, drives: u32) -> Result<(), Finding> {
    let path = |key| ["tape", key];
    if tape.recall_files.is_some_and(|files| files.0 == 0) {
        return wrong(&path("recall_files"), "it is at least 1; leave it out for no such limit");
    }
    if tape.recall_at_once.is_some_and(|priority| priority > u32::from(PRIORITY_MAX)) {
        return wrong(&path("recall_at_once"), &format!("it is 0 to {PRIORITY_MAX}; leave it out for never"));
    }
    if tape.share_half_life.0 < 1_000_000 {
        return wrong(&path("share_half_life"), "it is at least \"1s\"");
    }
    let (min, max) = (path("recall_drives_min"), path("recall_drives_max"));
    check_limits(&min, tape.recall_drives_min, &max, tape.recall_drives_max, drives)?;
    let (min, max) = (path("migration_drives_min"), path("migration_drives_max"));
    check_limits(&min, tape.migration_drives_min, &max, tape.migration_drives_max, drives)?;
    let kept = [tape.recall_drives_min, tape.migration_drives_min].into_iter();
    check_sum(&path("migration_drives_min"), kept, drives, "recall and migration")
}

/// At least as many at most as are kept, and no more than there are.
fn check_limits(
    min_path: &[&str],
    min: u32,
    max_path: &[&str],
    max: Option<u32>,
    drives: u32,
) -> Result<(), Finding> {
    // More than there are is no mistake here: variants take drives away.
    if max == Some(0) {
        return wrong(max_path, "it is at least 1");
    }
    let most = max.unwrap_or(drives).min(drives);
    if min > most {
        return wrong(min_path, &format!("{min} drives cannot be kept where {most} at most are used"));
    }
    Ok(())
}

/// No more drives are kept than there are.
fn check_sum(
    path: &[&str],
    kept: impl Iterator<Item = u32>,
    drives: u32,
    whose: &str,
) -> Result<(), Finding> {
    let sum = kept.fold(0_u32, u32::saturating_add);
    if sum > drives {
        let problem =
            format!("{sum} drives are kept for {whose} (drives_min), but there are {drives}: keep fewer");
        return wrong(path, &problem);
    }
    Ok(())
}

/// How sessions write and read.
pub fn work(tape: &Tape) -> Result<TapeWork, Finding> {
    if tape.flush_bytes.0 == 0 {
        return wrong(&["tape", "flush_bytes"], "a flush covers at least a byte");
    }
    if tape.index_bytes < tape.flush_bytes {
        return wrong(&["tape", "index_bytes"], "an index covers at least one flush: flush_bytes or more");
    }
    if tape.recall_batch.0 == 0 {
        return wrong(&["tape", "recall_batch"], "a batch has at least a byte");
    }
    let (path, bytes) = (["tape", "index_bytes_a_file"], tape.index_bytes_a_file.0);
    limited(&path, "bytes", bytes, INDEX_BYTES_A_FILE_MAX, "INDEX_BYTES_A_FILE_MAX")?;
    Ok(TapeWork {
        flush_bytes: ByteCount(tape.flush_bytes.0),
        flush_age: span(tape.flush_age),
        index_bytes: ByteCount(tape.index_bytes.0),
        index_bytes_a_file: tape.index_bytes_a_file.0,
        flush_each_file: tape.flush_each_file,
        recall_batch: ByteCount(tape.recall_batch.0),
        replan: span(tape.replan),
    })
}

/// What is foreign.
pub fn foreign(form: &Foreign) -> Result<model::Foreign, Finding> {
    let Foreign { queue_limit, copies, order, window, flush_files, labels, marks, spans } = form;
    let path = ["foreign", "window"];
    let order = match (order, window) {
        (ReadOrder::Window, None) => return missing(&path),
        (ReadOrder::Window, Some(window)) if (1..=WINDOW_MAX).contains(window) => {
            model::ReadOrder::Window(*window)
        }
        (ReadOrder::Window, Some(_)) => return wrong(&path, &format!("it is 1 to {WINDOW_MAX}")),
        (_, Some(_)) => return wrong(&path, "it has a meaning only with foreign.order = \"window\""),
        (ReadOrder::Planned, None) => model::ReadOrder::Planned,
        (ReadOrder::Block, None) => model::ReadOrder::Block,
        (ReadOrder::Arrival, None) => model::ReadOrder::Arrival,
    };
    let copies = match copies {
        CopyRule::Any => model::CopyRule::Any,
        CopyRule::Newest => model::CopyRule::Newest,
        CopyRule::First => model::CopyRule::First,
    };
    let marks = match (labels, marks) {
        (Labels::None, Some(_)) => {
            return wrong(&["foreign", "marks"], "it has a meaning only with foreign.labels = \"aul\"");
        }
        (_, Some(Marks::Synchronous)) => model::Marks::Synchronous,
        (_, Some(Marks::Immediate) | None) => model::Marks::Immediate,
    };
    let labels = match labels {
        Labels::None => model::Labels::None,
        Labels::Aul => model::Labels::Aul,
    };
    Ok(model::Foreign {
        queue_limit: queue_limit.0,
        copies,
        order,
        flush_files: flush_files.0,
        labels,
        marks,
        spans: *spans,
    })
}
