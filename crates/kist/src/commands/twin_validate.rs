//! `kist twin validate`.

use scenario::{self, Kind};
use terminal::{Exit, Failure, Outcome, Table, output, parallel};
use validation::{Basis, Case, CaseResult, Row, Validation, cases, judge};

use crate::cli::Common;
use crate::commands::twin_run;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Each site has one frozen file, which serves all of its cases; what its publication
leaves open was fitted once, on the case that the file names. The exit code is 1 if a
prediction is further from what was published than the tolerance.

Examples:
  kist twin validate
  kist twin validate GK-queue --json")]
pub struct Args {
    /// Only these cases
    #[arg(value_name = "CASE")]
    only: Vec<String>,
    /// Runs at a time; all cores unless said
    #[arg(long, value_name = "N", value_parser = parallel::parse_jobs)]
    threads: Option<usize>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let known = cases();
    if let Some(unknown) = args.only.iter().find(|name| known.iter().all(|case| case.name != *name)) {
        let names: Vec<&str> = known.iter().map(|case| case.name).collect();
        let message = format!("there is no case {unknown:?}; there are {}", names.join(", "));
        return Err(Failure::new(Exit::Usage, message));
    }
    let chosen =
        known.into_iter().filter(|case| args.only.is_empty() || args.only.iter().any(|it| it == case.name));
    let mut results = Vec::new();
    for case in chosen {
        results.push(result(case, args, common)?);
    }
    let validation = Validation::of(results);
    match common.json {
        true => output::json(&as_json(&validation)?)?,
        false => output::write(&written(&validation))?,
    }
    let failed: Vec<&str> =
        validation.cases.iter().filter(|case| !case.pass()).map(|case| case.name).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Exit::SomeFailed, format!("not predicted: {}", failed.join(", ")))),
    }
}

/// Runs what the case has to run, and compares.
fn result(case: &Case, args: &Args, common: &Common) -> Outcome<CaseResult> {
    let Some(text) = case.scenario else { return Ok(judge(case, &[])) };
    let scenario = scenario::parse(case.name, text, &|name| Err(format!("no site is called {name}")))
        .map_err(|error| Failure::internal(format!("case {}: {error}", case.name)))?;
    let outcomes = twin_run::outcomes(&scenario, args.threads, common.quiet);
    let names = scenario.variants.iter().map(|model| model.name.clone());
    Ok(judge(case, &names.zip(outcomes).collect::<Vec<_>>()))
}

fn as_json(validation: &Validation) -> Outcome<serde_json::Value> {
    let mut value = serde_json::to_value(validation).map_err(|error| Failure::internal(error.to_string()))?;
    let mut names: Vec<&str> = validation.cases.iter().map(|case| case.site).collect();
    names.dedup();
    let of = |name: &&str| (name.to_string(), serde_json::json!(provenance(name)));
    let sites: serde_json::Map<String, serde_json::Value> = names.iter().map(of).collect();
    value["sites"] = serde_json::Value::Object(sites);
    Ok(value)
}

/// What a site's file says of its figures, in the order of the file.
fn provenance(site: &str) -> Vec<scenario::Provenance> {
    // Any scenario of the site has it.
    let of_site = cases().into_iter().filter(|case| case.site == site).find_map(|case| case.scenario);
    let parsed = of_site.map(|text| scenario::parse(site, text, &|name| Err(name.to_owned())));
    parsed.and_then(Result::ok).map_or(Vec::new(), |scenario| scenario.provenance)
}

fn written(validation: &Validation) -> String {
    let mut table = Table::new(&[
        "CASE",
        "WHAT",
        "STATISTIC",
        ">PUBLISHED",
        ">PREDICTED",
        ">DEVIATION",
        "TOLERANCE",
        "BASIS",
        "RESULT",
    ]);
    for row in validation.cases.iter().flat_map(|case| &case.rows) {
        table.row(cells(row));
    }
    let mut page = table.render();
    page.push_str("\nInputs:\n");
    let mut site = "";
    for case in &validation.cases {
        if case.site != site {
            site = case.site;
            for kind in Kind::ALL {
                let all = provenance(site);
                let of_kind: Vec<&str> =
                    all.iter().filter(|it| it.kind == kind).map(|it| it.key.as_str()).collect();
                if !of_kind.is_empty() {
                    page.push_str(&format!("  {site}, {}: {}\n", kind.word(), of_kind.join(", ")));
                }
            }
        }
        for (kind, words) in case.inputs {
            page.push_str(&format!("  {}, {}: {words}\n", case.name, kind.word()));
        }
        if let Some(trouble) = &case.trouble {
            page.push_str(&format!("  {}: VIOLATION: {trouble}\n", case.name));
        }
    }
    for basis in [Basis::Predicted, Basis::Fitted, Basis::Derived] {
        let rows = || validation.cases.iter().flat_map(|case| &case.rows).filter(|row| row.basis == basis);
        let (passed, all) = (rows().filter(|row| row.pass).count(), rows().count());
        let words = match basis {
            Basis::Predicted => "published values predicted, nothing fitted to them",
            Basis::Fitted => "published values that inputs were fitted to once",
            Basis::Derived => "values that the reference derives, not published",
        };
        page.push_str(&format!("\n{passed} of {all} {words}"));
    }
    page.push('\n');
    page
}

fn cells(row: &Row) -> Vec<String> {
    let unit = |value: f64| match row.unit {
        "B/s" if value.abs() >= 1e10 => format!("{:.1} GB/s", value / 1e9),
        "B/s" => format!("{:.1} MB/s", value / 1e6),
        "" => format!("{value:.2}"),
        unit => format!("{value:.1} {unit}"),
    };
    let predicted = match (row.predicted, row.interval) {
        (Some(value), Some(half)) if half > 0.0 => format!("{} ± {}", unit(value), unit(half)),
        (Some(value), _) => unit(value),
        (None, _) => "-".to_owned(),
    };
    vec![
        row.case.to_owned(),
        row.what.to_owned(),
        row.statistic.to_owned(),
        unit(row.published),
        predicted,
        match row.deviation_percent {
            Some(deviation) if !row.tolerance.starts_with("at least") => format!("{deviation:+.1} %"),
            _ => "-".to_owned(),
        },
        row.tolerance.clone(),
        row.basis.word().to_owned(),
        if row.pass { "ok" } else { "FAILS" }.to_owned(),
    ]
}
