//! Storage classes and what is on tape at the beginning.

use base::{ByteCount, Duration};

use super::finding::{Finding, limited, missing, wrong};
use super::{index, per_mille, sizes, span};
use crate::form::{ClassForm, GatherForm, Holding, Recall, Scenario};
use crate::limits::{CLASSES_MAX, COPIES_MAX, FILES_MAX, HOLDINGS_MAX, RUNS_MAX, TAPES_MAX};
use crate::model;
use crate::model::{ClassIndex, ClassModel, GatherBy, LibraryModel, SizeLaw, TapePoolModel};

/// How long a file stays that stays as long as there is room: a thousand years.
const FOR_EVER: Duration = Duration::from_secs(1_000 * 365 * 86_400);
/// The smallest pack, as the server has it.
const PACK_MIN: u64 = 1 << 20;

/// All classes.
pub fn classes(form: &Scenario) -> Result<Vec<ClassModel>, Finding> {
    limited(&["class"], "classes", form.class.0.len() as u64, CLASSES_MAX as u64, "CLASSES_MAX")?;
    if form.class.0.is_empty() {
        return wrong(&["class"], "there is no storage class: add [class.data]");
    }
    form.class.iter().map(|(name, class)| class_model(form, name, class)).collect()
}

fn class_model(form: &Scenario, name: &str, class: &ClassForm) -> Result<ClassModel, Finding> {
    let path = |key| ["class", name, key];
    let (found, most) = (class.copies.len() as u64, COPIES_MAX as u64);
    limited(&path("copies"), "copies", found, most, "COPIES_MAX")?;
    let mut copies = Vec::new();
    for copy in &class.copies {
        let pool = index(&path("copies"), "tape pool", &form.tape_pool, copy)?;
        if copies.contains(&pool) {
            return wrong(
                &path("copies"),
                &format!("two copies in one tape pool '{copy}' are no second copy"),
            );
        }
        copies.push(pool);
    }
    if class.pack.0 < PACK_MIN {
        return wrong(&path("pack"), "a pack has at least \"1MiB\"");
    }
    if class.data_set_files == 0 {
        return wrong(&path("data_set_files"), "a data set has at least one file");
    }
    Ok(ClassModel {
        name: name.to_owned(),
        copies,
        sizes: alike(sizes::law(&path("sizes"), &class.sizes)?, class.alike_files),
        large: ByteCount(class.large.0),
        pack: ByteCount(class.pack.0),
        recall_packs: class.recall == Recall::Pack,
        residency: class.residency.map_or(FOR_EVER, span),
        pool_max: class.pool_max.map(|most| ByteCount(most.0)),
        data_set_files: class.data_set_files,
        gather: gather_by(class),
    })
}

fn gather_by(class: &ClassForm) -> GatherBy {
    match class.gather {
        Some(GatherForm::Class) => GatherBy::Class,
        None if class.data_set_files == 1 => GatherBy::Class,
        Some(GatherForm::DataSet) | None => GatherBy::DataSet,
    }
}

/// The law of a class whose files are of one size, so many at a time.
fn alike(sizes: SizeLaw, files: u32) -> SizeLaw {
    match sizes {
        SizeLaw::Table(table) if files > 1 => SizeLaw::Alike { table, files },
        other => other,
    }
}

/// All holdings.
pub fn holdings(
    form: &Scenario,
    classes: &[ClassModel],
    libraries: &[LibraryModel],
    pools: &[TapePoolModel],
) -> Result<Vec<model::Holding>, Finding> {
    let found = form.holding.0.len() as u64;
    limited(&["holding"], "holdings", found, HOLDINGS_MAX as u64, "HOLDINGS_MAX")?;
    let holdings = form.holding.iter().map(|(name, held)| holding(form, name, held, classes));
    let holdings = holdings.collect::<Result<Vec<_>, _>>()?;
    for (held, (name, _)) in holdings.iter().zip(form.holding.iter()) {
        fits_a_cartridge(name, held, classes, libraries, pools)?;
    }
    let files = holdings.iter().fold(0_u64, |sum, held| sum.saturating_add(held.files));
    limited(&["holding"], "files", files, FILES_MAX, "FILES_MAX")?;
    let runs = holdings.iter().map(|held| held.files.div_ceil(u64::from(held.run_files.max(1))));
    let runs = runs.fold(0_u64, u64::saturating_add);
    limited(&["holding"], "runs of files (files / run_files)", runs, RUNS_MAX, "RUNS_MAX")?;
    let tapes = tapes(&holdings, classes, libraries, pools);
    limited(&["holding"], "tapes", tapes, TAPES_MAX, "TAPES_MAX")?;
    Ok(holdings)
}

/// What is on tape at the beginning stands whole on one cartridge.
fn fits_a_cartridge(
    name: &str,
    held: &model::Holding,
    classes: &[ClassModel],
    libraries: &[LibraryModel],
    pools: &[TapePoolModel],
) -> Result<(), Finding> {
    let Some(class) = classes.get(usize::from(held.class.0)) else { return Ok(()) };
    let largest = ByteCount(class.sizes.largest());
    for pool in class.copies.iter().filter_map(|copy| pools.get(usize::from(*copy))) {
        let library = libraries.get(usize::from(pool.library.0));
        if let Some(library) = library.filter(|library| library.tape.capacity < largest) {
            let capacity = library.tape.capacity;
            let text = format!(
                "files of class '{}' have up to {largest}, and a cartridge of library '{}' takes {capacity}: \
                 no such file can be on tape",
                class.name, library.name
            );
            return wrong(&["holding", name, "class"], &text);
        }
    }
    Ok(())
}

/// About so many tapes there are at the beginning.
fn tapes(
    holdings: &[model::Holding],
    classes: &[ClassModel],
    libraries: &[LibraryModel],
    pools: &[TapePoolModel],
) -> u64 {
    let scratch: u64 = libraries.iter().map(|library| u64::from(library.scratch)).sum();
    let mut tapes = scratch as f64;
    for held in holdings {
        let Some(class) = classes.get(usize::from(held.class.0)) else { continue };
        let bytes = held.files as f64 * class.sizes.mean();
        for copy in &class.copies {
            let pool = pools.get(usize::from(*copy));
            let library = pool.and_then(|pool| libraries.get(usize::from(pool.library.0)));
            let capacity = library.map_or(u64::MAX, |library| library.tape.capacity.0);
            tapes += bytes / held.fill.0.min(capacity).max(1) as f64;
        }
        tapes += f64::from(held.duplicate_tapes) + f64::from(held.spread);
    }
    tapes.min(1e18) as u64
}

fn holding(
    form: &Scenario,
    name: &str,
    held: &Holding,
    classes: &[ClassModel],
) -> Result<model::Holding, Finding> {
    let Holding { class, files, bytes, run_files, spread, fill, duplicates, duplicate_tapes, resident } =
        held;
    let path = |key| ["holding", name, key];
    let class = index(&path("class"), "class", &form.class, class)?;
    let Some(model) = classes.get(usize::from(class)) else { return missing(&path("class")) };
    if model.copies.is_empty() {
        return wrong(&path("class"), "its files are on no tape: give the class copies");
    }
    let files = match (files, bytes) {
        (Some(files), None) => files.0,
        (None, Some(bytes)) => (bytes.as_f64() / model.sizes.mean()).round() as u64,
        (None, None) => return missing(&path("files")),
        (Some(_), Some(_)) => return wrong(&path("bytes"), "say either files or bytes, not both"),
    };
    for (key, number) in [("run_files", run_files.unwrap_or(1)), ("spread", *spread)] {
        if number == 0 {
            return wrong(&path(key), "it is at least 1");
        }
    }
    if fill.is_some_and(|fill| fill.0 == 0) {
        return wrong(&path("fill"), "a tape takes at least a byte");
    }
    let duplicates_per_mille = per_mille(&path("duplicates"), *duplicates)?;
    if (duplicates_per_mille > 0) != (*duplicate_tapes > 0) {
        return wrong(&path("duplicate_tapes"), "duplicates lie on at least one tape; say both or neither");
    }
    let copies = model.copies.len() + usize::from(duplicates_per_mille > 0);
    limited(&path("duplicates"), "copies", copies as u64, COPIES_MAX as u64, "COPIES_MAX")?;
    Ok(model::Holding {
        class: ClassIndex(class),
        files,
        run_files: run_files.unwrap_or(model.data_set_files),
        spread: *spread,
        fill: ByteCount(fill.map_or(u64::MAX, |fill| fill.0)),
        duplicates_per_mille,
        duplicate_tapes: *duplicate_tapes,
        resident_per_mille: per_mille(&path("resident"), *resident)?,
    })
}
