//! From typed forms to a model: names become indices, quantities are checked against each other.

mod classes;
mod finding;
mod library;
mod policy;
mod pool;
mod sample;
mod sizes;
mod work;

pub use finding::{Finding, Problem};
pub use sample::sampling;

use base::Duration;

use super::form::{Run, Scenario, Seeds};
use super::limits::{BINS_MAX, BINS_USUAL, SEEDS_MAX, SPAN_DAYS_MAX};
use crate::model::{Model, Site, TapePoolModel};
use finding::{at, limited, wrong};
use quantity::{Rate, Share, Span};

/// The model of a form, called `name`.
pub fn model(form: &Scenario, name: &str) -> Result<Model, Finding> {
    let libraries = library::libraries(&form.library)?;
    let tape_pools = policy::tape_pools(form)?;
    let classes = classes::classes(form)?;
    let holdings = classes::holdings(form, &classes, &libraries, &tape_pools)?;
    let (step, seeds) = run(&form.run)?;
    let site = Site {
        pool: pool::pool(form)?,
        path: pool::path(&form.path)?,
        work: policy::work(&form.tape)?,
        libraries,
        tape_pools,
        classes,
        holdings,
    };
    Ok(Model {
        name: name.to_owned(),
        policy: policy::policy(form)?,
        foreign: policy::foreign(&form.foreign)?,
        workloads: work::workloads(form, &site)?,
        faults: work::faults(&form.fault)?,
        span: span(form.run.span),
        until_done: form.run.until_done,
        warm_up: form.run.warm_up.map(span),
        step,
        seeds,
        site,
    })
}

/// The width of a bin, and the seeds.
fn run(run: &Run) -> Result<(Duration, Vec<u64>), Finding> {
    const DAY: u64 = 86_400_000_000;
    limited(&["run", "span"], "days", run.span.0.div_ceil(DAY), SPAN_DAYS_MAX, "SPAN_DAYS_MAX")?;
    if run.span.0 == 0 {
        return wrong(&["run", "span"], "nothing happens in no time: write a span such as \"7d\"");
    }
    if run.warm_up.is_some_and(|warm_up| warm_up >= run.span) {
        return wrong(&["run", "warm_up"], "nothing would count: it must be shorter than run.span");
    }
    let usual = Span((run.span.0 / BINS_USUAL).max(1));
    let step = run.step.unwrap_or(usual);
    if step.0 == 0 {
        return wrong(&["run", "step"], "a bin has a width: write a span such as \"10min\"");
    }
    limited(&["run", "step"], "bins", run.span.0.div_ceil(step.0), BINS_MAX, "BINS_MAX")?;
    let seeds = match &run.seeds {
        Seeds::Count(count) => {
            limited(&["run", "seeds"], "seeds", *count, SEEDS_MAX as u64, "SEEDS_MAX")?;
            (1..=*count).collect()
        }
        Seeds::List(seeds) => seeds.clone(),
    };
    limited(&["run", "seeds"], "seeds", seeds.len() as u64, SEEDS_MAX as u64, "SEEDS_MAX")?;
    if seeds.is_empty() {
        return wrong(&["run", "seeds"], "without a seed nothing runs: write a number such as 3");
    }
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let problem = format!("seed {} is there twice, and would give the same run twice", twice[0]);
        return wrong(&["run", "seeds"], &problem);
    }
    Ok((span(step), seeds))
}

/// As the model has spans.
fn span(span: Span) -> Duration {
    Duration::from_micros(span.0)
}

/// As the model has rates: whole bytes a second, at least one.
fn rate(path: &[&str], rate: Rate) -> Result<u64, Finding> {
    if rate.0 < 1.0 {
        return wrong(path, "nothing moves: write a rate of at least \"1B/s\"");
    }
    Ok(rate.0.round() as u64)
}

/// As the model has shares: whole percent.
fn percent(path: &[&str], share: Share) -> Result<u8, Finding> {
    whole(path, share, 100.0, "whole percents, such as \"85%\"").map(|percent| percent as u8)
}

/// As the model has finer shares: thousandths.
fn per_mille(path: &[&str], share: Share) -> Result<u16, Finding> {
    whole(path, share, 1000.0, "tenths of percents, such as \"0.5%\"")
}

fn whole(path: &[&str], share: Share, parts: f64, what: &str) -> Result<u16, Finding> {
    let found = share.0 * parts;
    if (found - found.round()).abs() > 1e-6 {
        return wrong(path, &format!("{share} is too fine: write {what}"));
    }
    Ok(found.round() as u16)
}

/// The index of a named table.
fn index<T>(
    path: &[&str],
    kind: &'static str,
    tables: &super::form::Named<T>,
    name: &str,
) -> Result<u16, Finding> {
    let found = tables.index(name).and_then(|index| u16::try_from(index).ok());
    found.ok_or_else(|| {
        let problem = Problem::NotThere { kind, name: name.to_owned(), known: tables.names() };
        Finding { path: at(path), problem }
    })
}

/// The library that a tape pool writes to, by index.
fn library_of(form: &Scenario, pool: &TapePoolModel) -> usize {
    usize::from(pool.library.0).min(form.library.0.len().saturating_sub(1))
}
