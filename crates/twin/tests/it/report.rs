//! Pages of runs of the twin. To look at them: set `KIST_TWIN_PAGES` to a directory.

use crate::support::*;
use report::outcome::Outcome;
use report::stats::summary;
use report::{Described, html, sentences};
use scenario::model::{FaultKind, Model, WorkloadKind};

fn runs(model: &Model, seeds: u64) -> Vec<Outcome> {
    (1..=seeds).map(|seed| twin::run(model, seed)).collect()
}

fn page(name: &str, title: &str, variants: &[Vec<Outcome>]) -> String {
    let described = Described { title: title.to_owned(), ..Described::default() };
    let page = html(&described, variants);
    if let Some(directory) = std::env::var_os("KIST_TWIN_PAGES") {
        std::fs::write(std::path::Path::new(&directory).join(format!("{name}.html")), &page).unwrap();
    }
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(!page.contains("NaN"));
    page
}

#[test]
fn a_limited_queue_is_slower_and_the_page_says_why() {
    let variant = |name: &str, limit: u64| {
        let mut model = model(4, 1, 200 * GB);
        model.name = name.to_owned();
        model.step = secs(120);
        hold(&mut model, 4_000);
        campaign(&mut model, None);
        if let WorkloadKind::Campaign { choice, .. } = &mut model.workloads[0].kind {
            choice.shuffled = true;
        }
        model.foreign.queue_limit = limit;
        runs(&model, 2)
    };
    let variants = [variant("200 requests in the queue", 200), variant("all requests in the queue", 0)];
    let html = page("real-queue", "What would a longer queue do?", &variants);
    let said = sentences(&summary(&variants), &[&variants[0][0], &variants[1][0]]);
    assert!(said[0].starts_with("all requests in the queue: "), "{said:?}");
    assert!(said[0].contains(", because "), "{said:?}");
    assert!(html.contains("What each drive does"));
    let drive = &variants[1][0].drives[0];
    assert!((drive.seconds.iter().sum::<f64>() - variants[1][0].end).abs() < 1e-5, "all its time is known");
}

#[test]
fn a_site_with_users_ingest_and_faults() {
    let mut model = model(6, 2, 3 * TB);
    model.name = "a small site".to_owned();
    hold(&mut model, 40_000);
    users(&mut model, 6_000.0, hours(24 * 14));
    ingest(&mut model, 20_000.0, hours(24 * 14));
    fault(&mut model, FaultKind::DriveLoss, hours(40), hours(4));
    fault(&mut model, FaultKind::RobotJam, hours(60), hours(1));
    model.span = hours(24 * 14);
    model.until_done = false;
    let outcomes = runs(&model, 1);
    assert!(outcomes[0].faults.values().sum::<u64>() > 0, "{:?}", outcomes[0].faults);
    page("real-site", "A small site for three weeks", &[outcomes]);
}
