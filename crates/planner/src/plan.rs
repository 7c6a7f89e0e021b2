//! A site's plan: each part in turn, in the order in which the figures follow from each other.

use super::access::Machines;
use super::bottleneck::Use;
use super::check::SiteError;
use super::drives::Flow;
use super::line::{Line, Sheet};
use super::machines::Inventory;
use super::site::Site;
use super::workload::ClassWorkload;
use super::{bandwidth, bottleneck, cache, drives, machines, pool, robots};

/// A plan.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The site's name.
    pub site: String,
    /// The currency of all [`Unit::Money`](crate::Unit::Money), if there are prices.
    pub currency: Option<String>,
    /// Every figure, in the order in which they follow from each other.
    pub lines: Vec<Line>,
    /// The part that is used up first, on the mean and the busiest day; nothing where nothing is compared.
    pub bottleneck: Option<String>,
}

impl Plan {
    /// The first line of that subject and name.
    #[must_use]
    pub fn line(&self, subject: &str, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.subject == subject && line.name == name)
    }

    /// The value of [`Plan::line`]; nothing also where it has no bound.
    #[must_use]
    pub fn value(&self, subject: &str, name: &str) -> Option<f64> {
        self.line(subject, name)?.value
    }
}

/// What the figures leave out or take for granted.
pub const ASSUMPTIONS: [&str; 9] = [
    "Means of a day: what happens within it, and campaigns that come together, kist twin run shows.",
    "The busiest days of all classes come together.",
    "Cache lifetimes are lower bounds: all traffic touches different data, nothing is rewritten in cache.",
    "A recall's files lie anywhere on a full tape, as many as files_per_mount in each mount; locates are \
     those of the order that the scheduler makes of them.",
    "Waiting is that of M/M/c: arrivals at random, any drive or robot of a library may serve.",
    "Disks are alike within the pool: their mean rate, seek and size count; rebuilds take nothing from them.",
    "Traffic between servers, for stripes over several of them, is not in a server's network limit.",
    "A third-generation PCIe lane counts as 1000 MB/s raw, as KISTI has it; 128b/130b would make it 985.",
    "Drives run at the model's rate, without compression; a pool too slow for them is not charged as stops.",
];

/// Plans a site.
///
/// # Errors
/// What [`Site::check`] finds, a class with recalls or copies without tapes, and a site with neither classes
/// nor servers.
pub fn plan(site: &Site) -> Result<Plan, SiteError> {
    site.check()?;
    let mut sheet = Sheet::default();
    let mut uses = Vec::new();
    let has_pool = site.pool.as_ref().is_some_and(|pool| pool.read_rate.is_some());
    if site.classes.is_empty() && site.servers.is_empty() && !has_pool {
        return Err(SiteError::Empty);
    }
    let flows = drives::flows(&mut sheet, &site.classes);
    let needs_tape = |(class, flow): (&ClassWorkload, &Flow)| {
        (flow.to_tape > 0.0 || flow.from_tape > 0.0).then(|| class.name.clone())
    };
    let class = site.classes.iter().zip(&flows).find_map(needs_tape);
    if let (Some(class), None) = (class, &site.tape) {
        return Err(SiteError::NoTape { class });
    }
    let (on_tape, tapes) = on_tape(&mut sheet, site, &flows, &mut uses)?;
    let parts = bandwidth::bandwidth(&mut sheet, &site.servers);
    let inventory = Inventory { parts, ..tapes };
    let usable = site.pool.as_ref().and_then(|pool| pool::space(&mut sheet, pool, &parts));
    cache::cache(&mut sheet, &site.classes, &flows, usable, &mut uses);
    if let Some(layout) = &site.pool {
        pool::pool(&mut sheet, site, layout, &flows, &parts, &mut uses);
        if let Some(tape) = &site.tape {
            let machines = Machines::of(tape)?;
            pool::fed(&mut sheet, site, layout, machines.write_rate, machines.read_rate);
        }
        machines::durability(&mut sheet, layout, &parts);
    }
    let watts = match &site.power {
        Some(power) => machines::power(&mut sheet, power, &inventory, usable, on_tape),
        None => 0.0,
    };
    if let Some(price) = &site.price {
        machines::cost(&mut sheet, price, &inventory, watts);
    }
    let bottleneck = bottleneck::bottleneck(&mut sheet, &uses);
    let currency = site.price.as_ref().map(|price| price.currency.clone());
    Ok(Plan { site: site.name.clone(), currency, lines: sheet.lines, bottleneck })
}

/// Drives, robots and media; the bytes that the tapes hold, and the machines.
fn on_tape(
    sheet: &mut Sheet,
    site: &Site,
    flows: &[Flow],
    uses: &mut Vec<Use>,
) -> Result<(f64, Inventory), SiteError> {
    let (Some(tape), false) = (&site.tape, site.classes.is_empty()) else {
        return Ok((0.0, Inventory::default()));
    };
    let machines = Machines::of(tape)?;
    let needs = drives::drives(sheet, &site.classes, flows, tape, &machines);
    robots::robots(sheet, tape, &machines, &needs, uses);
    Ok(machines::media(sheet, site, flows, tape, &machines, &needs, uses))
}
