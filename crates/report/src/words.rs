//! The result in sentences.

use super::differences::{differences, is_all_moved, ratio_of};
use super::text::{number, spoken, time, whole, with_unit};
use crate::outcome::{DriveActivity, Outcome};
use crate::stats::{Figure, Summary, VariantSummary, completion, is_completed};

/// Differences below this part are none, in words.
const ALIKE: f64 = 0.02;

/// What came of a scenario, in a few sentences without markup: what is wrong first, then each variant against
/// the first one, with the reason, then its campaigns.
#[must_use]
pub fn sentences(summary: &Summary, shown: &[&Outcome]) -> Vec<String> {
    let mut found = Vec::new();
    for variant in &summary.variants {
        if let Some(violation) = &variant.violation {
            found.push(format!(
                "{}: an invariant did not hold, and the run ended there: {violation}",
                variant.name
            ));
        }
    }
    let (Some(first), Some(base)) = (summary.variants.first(), shown.first()) else {
        return found;
    };
    if shown.len() == 1 || summary.variants.len() != shown.len() {
        found.extend(alone(first, base));
    }
    if summary.variants.len() == shown.len() {
        for (variant, outcome) in summary.variants.iter().zip(shown).skip(1) {
            found.push(against(first, base, variant, outcome));
        }
    }
    for outcome in shown.iter().filter(|outcome| !outcome.is_drained && !outcome.is_steady) {
        let asked = outcome.totals.files_wanted;
        let left = asked.saturating_sub(outcome.totals.files_served + outcome.totals.files_refused);
        found.push(format!(
            "{}: the run's time was over before all work was done; {} of {} wanted files were still missing.",
            outcome.variant,
            whole(left as f64),
            whole(asked as f64)
        ));
    }
    found.extend(shown.iter().flat_map(|outcome| super::limits::limits(outcome)));
    found.extend(shown.iter().filter_map(|outcome| unsettled(outcome)));
    found.extend(tails(shown));
    found.extend(super::limits::covered(shown));
    found
}

/// What still grew at the end of a run that was to be in a steady state: its means say little then.
fn unsettled(outcome: &Outcome) -> Option<String> {
    const BINS_MIN: usize = 20;
    let mean = |values: &[u64]| values.iter().map(|v| *v as f64).sum::<f64>() / values.len().max(1) as f64;
    let grows = |values: &Vec<u64>| {
        let tenth = values.len() / 10;
        let (middle, last) = (
            mean(&values[values.len() / 2 - tenth..values.len() / 2]),
            mean(&values[values.len() - tenth..]),
        );
        // The middle is not that of a run that only breathes: twice as much, and much against its largest.
        last > 2.0 * middle && last > 0.5 * values.iter().copied().max().unwrap_or(0) as f64
    };
    let series = &outcome.series;
    if !outcome.is_steady || series.queue.len() < BINS_MIN {
        return None;
    }
    let all = [("the queue of recalls", &series.queue), ("what waits for tape", &series.backlog)];
    let growing: Vec<&str> = all.iter().filter(|(_, values)| grows(values)).map(|(what, _)| *what).collect();
    (!growing.is_empty()).then(|| {
        let growing = growing.join(" and ");
        format!(
            "{}: not in a steady state: {growing} grew to the end, so its means say little.",
            outcome.variant
        )
    })
}

/// Which direction most bytes went: (figure, words, is_read).
fn direction(outcome: &Outcome) -> Option<(&'static str, &'static str, bool)> {
    let totals = &outcome.totals;
    if totals.tape_read == 0 && totals.tape_written == 0 {
        return None;
    }
    Some(if totals.tape_read >= totals.tape_written {
        ("read from tape", "from tape", true)
    } else {
        ("written to tape", "to tape", false)
    })
}

fn alone(variant: &VariantSummary, outcome: &Outcome) -> Option<String> {
    let Some((figure, words, _)) = direction(outcome) else {
        return Some(format!("{}: nothing moved from or to tape in {}.", variant.name, time(outcome.end)));
    };
    let mut sentence = format!(
        "{}: {} {words} on average over {}, with {} mounts ({} files each); drives in use moved \
         data {} % of the time.",
        variant.name,
        with_unit(variant.site(figure).mean, "MB/s"),
        time(outcome.end - outcome.warm_up),
        whole(variant.site("mounts").mean),
        spoken(variant.site("files per mount").mean),
        number(variant.site("of that, moving data").mean),
    );
    if let Some(most) = largest_cost(outcome) {
        sentence += &format!(" Of the rest most went to: {most}.");
    }
    Some(sentence)
}

/// What took most of the drives' time beside moving data.
fn largest_cost(outcome: &Outcome) -> Option<String> {
    let sums = DriveActivity::ALL
        .map(|activity| outcome.drives.iter().map(|drive| drive.seconds[activity as usize]).sum::<f64>());
    let all: f64 = sums.iter().sum();
    let costs = [DriveActivity::Mount, DriveActivity::Locate, DriveActivity::Wait];
    let most = costs.into_iter().max_by(|a, b| sums[*a as usize].total_cmp(&sums[*b as usize]))?;
    let share = sums[most as usize] / all.max(f64::MIN_POSITIVE);
    (share > 0.0).then(|| format!("{} ({} % of all drive time)", most.word(), number(100.0 * share)))
}

/// The figure that the sentences begin with: a table beside them begins with the same.
#[must_use]
pub fn leading<'a>(summary: &'a Summary, shown: &[&Outcome]) -> Option<&'a Figure> {
    let (first, base) = (summary.variants.first()?, shown.first()?);
    let Some(variant) = summary.variants.get(1).filter(|_| summary.variants.len() == shown.len()) else {
        let (figure, ..) = direction(base)?;
        return first.of("", figure).map(|found| &found.figure);
    };
    let [leading, _] = ways(first, variant);
    match leading.is_news() {
        true => variant.of("", leading.figure).map(|found| &found.figure),
        false => differences(first, variant).first().map(|(figure, _)| *figure),
    }
}

/// A rate of both variants.
struct Rate {
    figure: &'static str,
    words: &'static str,
    mine: f64,
    others: f64,
    /// Seeds of one variant differ as much.
    is_chance: bool,
}

impl Rate {
    fn of(
        first: &VariantSummary,
        variant: &VariantSummary,
        figure: &'static str,
        words: &'static str,
    ) -> Rate {
        let found = variant.of("", figure).and_then(|found| found.against_first);
        let is_chance = found.and_then(|found| found.is_different) == Some(false);
        Rate { figure, words, mine: variant.site(figure).mean, others: first.site(figure).mean, is_chance }
    }

    fn most(&self) -> f64 {
        self.mine.max(self.others)
    }

    /// How far the two are apart, as a factor above 1; nothing if that is none to speak of.
    fn apart(&self) -> Option<f64> {
        let ratio = self.mine / self.others;
        let apart = ratio.max(1.0 / ratio);
        (!self.is_chance && self.most() > 0.0 && apart - 1.0 >= ALIKE).then_some(apart)
    }

    /// Whether the two differ so that it is told first.
    fn is_news(&self) -> bool {
        self.apart().is_some() || (!self.is_chance && self.others <= 0.0 && self.mine > 0.0)
    }

    fn says(&self) -> String {
        let [mine, others] = [self.mine, self.others].map(|rate| with_unit(rate, "MB/s"));
        format!("{mine} {} against {others}", self.words)
    }

    fn with_ratio(&self) -> String {
        format!("{} ({} times)", self.says(), ratio_of(self.mine / self.others))
    }
}

/// The rates of both ways, the one that the difference between the variants is about first: that which
/// differs more, recalls before what goes to tape, and of rates that hardly differ the larger one.
fn ways(first: &VariantSummary, variant: &VariantSummary) -> [Rate; 2] {
    /// A way with less than this part of the other's rate is no story.
    const WORTH: f64 = 0.02;
    let of = |figure, words| Rate::of(first, variant, figure, words);
    let read = of("read from tape", "from tape");
    let written = of("written to tape", "to tape");
    let most = read.most().max(written.most());
    let weight = |rate: &Rate| match rate.apart().filter(|_| rate.most() >= WORTH * most) {
        Some(apart) => (1, apart),
        None => (0, rate.most()),
    };
    match weight(&written) > weight(&read) {
        true => [written, read],
        false => [read, written],
    }
}

fn against(first: &VariantSummary, base: &Outcome, variant: &VariantSummary, outcome: &Outcome) -> String {
    if direction(base).or_else(|| direction(outcome)).is_none() {
        return format!("{} and {}: nothing moved from or to tape.", variant.name, first.name);
    }
    let [leading, other] = ways(first, variant);
    let (rates, is_chance) = (leading.says(), leading.is_chance);
    let ratio = leading.mine / leading.others;
    if !is_chance && leading.others <= 0.0 {
        return format!("{}: {rates} with “{}”.", variant.name, first.name);
    }
    if leading.apart().is_some() {
        let reason = reason(base, outcome).map(|why| format!(", because {why}")).unwrap_or_default();
        let also = match other.apart() {
            Some(_) if other.others > 0.0 => format!(" Besides: {}.", other.with_ratio()),
            _ => String::new(),
        };
        return format!(
            "{}: {rates} with “{}”, {} times{reason}.{also}",
            variant.name,
            first.name,
            ratio_of(ratio)
        );
    }
    let differ: Vec<String> = differences(first, variant).into_iter().map(|(_, words)| words).collect();
    // A rate that only follows what is asked for says nothing of what the site could do.
    let both = if is_all_moved(base) && is_all_moved(outcome) {
        format!("Both moved all that was asked for: {rates}.")
    } else if is_chance && (ratio - 1.0).abs() >= ALIKE {
        format!("It moves {rates}; seeds differ more than that.")
    } else {
        format!("It moves {rates}: no more and no less.")
    };
    if differ.is_empty() {
        return format!(
            "{}: no difference to speak of to “{}”, neither in rates nor in campaigns, waits, drives in use \
             and mounts. {both}",
            variant.name, first.name
        );
    }
    format!("{}, against “{}”: {}. {both}", variant.name, first.name, differ.join("; "))
}

/// Drive seconds of an activity for each TB that was moved.
fn cost(outcome: &Outcome, activity: DriveActivity) -> f64 {
    let bytes = (outcome.totals.tape_read + outcome.totals.tape_written) as f64;
    let seconds: f64 = outcome.drives.iter().map(|drive| drive.seconds[activity as usize]).sum();
    if bytes > 0.0 { seconds / (bytes / 1e12) } else { 0.0 }
}

/// Why one variant moves more than the other: the one or two activities whose time for each TB changed most
/// in the
/// same direction, in words that can be checked.
fn reason(base: &Outcome, outcome: &Outcome) -> Option<String> {
    /// A second reason is worth a word if it makes up this part of the first one.
    const SECOND: f64 = 0.25;
    let rate = |outcome: &Outcome| {
        (outcome.totals.tape_read + outcome.totals.tape_written) as f64 / outcome.end.max(f64::MIN_POSITIVE)
    };
    let sign = if rate(outcome) >= rate(base) { -1.0 } else { 1.0 };
    let drives = (outcome.drives.len(), base.drives.len());
    if drives.0 != drives.1 && (drives.0 > drives.1) == (sign < 0.0) {
        return Some(format!("there are {} drives instead of {}", drives.0, drives.1));
    }
    let change = |activity: DriveActivity| (cost(outcome, activity) - cost(base, activity)) * sign;
    let mut all = DriveActivity::ALL.to_vec();
    // What takes as long as before is no reason.
    all.retain(|activity| change(*activity) > ALIKE * cost(base, *activity));
    all.sort_by(|a, b| change(*b).total_cmp(&change(*a)));
    let most = change(*all.first()?);
    all.retain(|activity| change(*activity) >= SECOND * most);
    let words = all.iter().filter_map(|activity| in_words(*activity, base, outcome));
    let words: Vec<String> = words.take(2).collect();
    (!words.is_empty()).then(|| words.join(" and "))
}

/// How an activity differs between two outcomes; `None`: not so that it can be seen.
fn in_words(activity: DriveActivity, base: &Outcome, outcome: &Outcome) -> Option<String> {
    let files = |outcome: &Outcome| (outcome.totals.files_read + outcome.totals.files_written) as f64;
    let sum =
        |outcome: &Outcome| outcome.drives.iter().map(|drive| drive.seconds[activity as usize]).sum::<f64>();
    let each = |outcome: &Outcome| sum(outcome) / files(outcome).max(1.0);
    let per_mount = |outcome: &Outcome| files(outcome) / outcome.totals.mounts.max(1) as f64;
    let share = |outcome: &Outcome| {
        let all: f64 = outcome.drives.iter().flat_map(|drive| drive.seconds).sum();
        format!("{} %", spoken(100.0 * sum(outcome) / all.max(f64::MIN_POSITIVE)))
    };
    let verb = if outcome.totals.tape_read >= outcome.totals.tape_written { "reads" } else { "writes" };
    let (what, mine, others) = match activity {
        DriveActivity::Mount => {
            let [mine, others] = [outcome, base].map(|of| spoken(per_mount(of)));
            (format!("each mount {verb} {mine} files instead of {others}"), mine, others)
        }
        DriveActivity::Locate => {
            let [mine, others] = [outcome, base].map(|of| time(each(of)));
            (format!("locating takes {mine} a file instead of {others}"), mine, others)
        }
        _ => {
            let what = match activity {
                DriveActivity::Read | DriveActivity::Write => "stream",
                DriveActivity::Wait => "wait",
                DriveActivity::Down => "are down",
                _ => "are idle",
            };
            let [mine, others] = [outcome, base].map(share);
            (format!("drives {what} {mine} of the time instead of {others}"), mine, others)
        }
    };
    (mine != others).then_some(what)
}

/// Campaigns, in words: how long, and how long the tail.
fn tails(shown: &[&Outcome]) -> Vec<String> {
    const CAMPAIGNS_MAX: usize = 3;
    let mut names: Vec<&str> = Vec::new();
    for campaign in shown.iter().flat_map(|outcome| &outcome.campaigns) {
        if campaign.ends && !names.contains(&campaign.name.as_str()) {
            names.push(&campaign.name);
        }
    }
    let of = |name: &&str| tail(shown, name).into_iter().chain(undone(shown, name));
    names.iter().take(CAMPAIGNS_MAX).flat_map(of).collect()
}

fn tail(shown: &[&Outcome], name: &str) -> Option<String> {
    const VARIANTS_MAX: usize = 3;
    let found = |outcome: &&Outcome| {
        let campaign = outcome.campaigns.iter().find(|campaign| campaign.name == name)?;
        let (whole, tail) = completion(campaign)?;
        is_completed(campaign).then(|| (whole, tail, outcome.variant.clone()))
    };
    let mut all: Vec<(f64, f64, String)> = shown.iter().filter_map(found).collect();
    if all.len() > VARIANTS_MAX {
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (least, most) = (&all[0], &all[all.len() - 1]);
        let least = format!("{} with “{}”", time(least.0), least.2);
        return Some(format!("Campaign “{name}” took from {least} to {} with “{}”.", time(most.0), most.2));
    }
    let part = |(whole, tail, variant): &(f64, f64, String)| {
        let with = if shown.len() > 1 { format!(" with “{variant}”") } else { String::new() };
        format!("{}{with}, of which the last 5 % of the files took {}", time(*whole), time(*tail))
    };
    let parts = all.iter().map(part).collect::<Vec<_>>().join("; ");
    (!all.is_empty()).then(|| format!("Campaign “{name}” took {parts}."))
}

/// How far a campaign came that was not completed.
fn undone(shown: &[&Outcome], name: &str) -> Option<String> {
    let part = |outcome: &&Outcome| {
        let campaign = outcome.campaigns.iter().find(|campaign| campaign.name == name)?;
        if is_completed(campaign) {
            return None;
        }
        let with = if shown.len() > 1 { format!(" with “{}”", outcome.variant) } else { String::new() };
        if campaign.files == 0 {
            return Some(format!("nothing was asked for{with}"));
        }
        let (served, files) = (whole(campaign.served as f64), whole(campaign.files as f64));
        Some(format!("{served} of {files} files were there{with}"))
    };
    let parts: Vec<String> = shown.iter().filter_map(part).collect();
    (!parts.is_empty())
        .then(|| format!("Campaign “{name}” was not completed when the run ended: {}.", parts.join("; ")))
}
