use std::collections::BTreeMap;

use base::Duration;

use super::*;
use crate::fixture::{arrivals, choice, holding, model, site};
use crate::users::zipf::Zipf;
use scenario::model::{Arrivals, Choice, ClassIndex, Site, WorkloadKind};

const DAY: u64 = 86_400_000_000;

fn held(files: u64) -> Site {
    let mut site = site(1);
    site.holdings = vec![holding(files)];
    site
}

/// A run of users alone: everything wanted is there `serve` microseconds later.
struct Run {
    users: Users,
    holdings: Holdings,
    acts: Vec<(Moment, Act)>,
    outstanding_max: usize,
}

impl Run {
    fn new(site: Site, kinds: Vec<WorkloadKind>, seed: u64) -> Run {
        let holdings = Holdings::new(&site, seed);
        let users = Users::new(&model(site, kinds), seed);
        Run { users, holdings, acts: Vec::new(), outstanding_max: 0 }
    }

    fn until(mut self, end: u64, serve: u64) -> Run {
        let mut outstanding: BTreeMap<(u64, usize), FileNumber> = BTreeMap::new();
        let mut acts = Vec::new();
        let mut count = 0;
        loop {
            let served = outstanding.first_key_value().map(|((at, _), _)| Moment(*at));
            let Some(now) = [self.users.next(), served].into_iter().flatten().min() else { break };
            if now.0 > end {
                break;
            }
            while let Some(first) = outstanding.first_entry().filter(|first| first.key().0 <= now.0) {
                let file = first.remove();
                self.users.done(now, 0, file);
            }
            self.users.act(now, &mut self.holdings, &mut acts);
            assert!(acts.len() <= ACTS_MAX);
            for act in acts.drain(..) {
                if let Act::Want { file, .. } = act {
                    count += 1;
                    outstanding.insert((now.0 + serve, count), file);
                }
                self.acts.push((now, act));
            }
            self.outstanding_max = self.outstanding_max.max(outstanding.len());
        }
        self
    }

    fn wanted(&self) -> Vec<u64> {
        let wanted = |act: &Act| match act {
            Act::Want { file, .. } => Some(file.sequence),
            _ => None,
        };
        self.acts.iter().filter_map(|(_, act)| wanted(act)).collect()
    }

    fn puts(&self) -> Vec<u64> {
        self.acts.iter().filter(|(_, act)| matches!(act, Act::Put { .. })).map(|(at, _)| at.0).collect()
    }
}

fn sorted(mut numbers: Vec<u64>) -> Vec<u64> {
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_campaign_asks_for_each_file_once_in_steps() {
    let kind = |shuffled| WorkloadKind::Campaign { choice: Choice { shuffled, ..choice() }, window: 0 };
    let run = Run::new(held(25_000), vec![kind(false)], 1).until(DAY, 1000);
    assert_eq!(run.wanted(), (0..25_000).collect::<Vec<_>>());
    assert!(run.users.is_over());
    let run = Run::new(held(25_000), vec![kind(true)], 1).until(DAY, 1000);
    assert_ne!(run.wanted(), (0..25_000).collect::<Vec<_>>());
    assert_eq!(sorted(run.wanted()), (0..25_000).collect::<Vec<_>>());
}

#[test]
fn a_window_bounds_what_is_outstanding() {
    let kind = WorkloadKind::Campaign { choice: Choice { shuffled: true, ..choice() }, window: 70 };
    let run = Run::new(held(3_000), vec![kind], 1).until(DAY, 1_000_000);
    assert_eq!(run.outstanding_max, 70);
    assert_eq!(sorted(run.wanted()), (0..3_000).collect::<Vec<_>>());
    assert_eq!(run.acts.last().unwrap().0, Moment(2999 / 70 * 1_000_000));
    assert!(run.users.is_over());
}

#[test]
fn choices_are_what_they_say() {
    for shuffled in [false, true] {
        let of = |choice: Choice| {
            let kind = WorkloadKind::Campaign { choice: Choice { shuffled, ..choice }, window: 0 };
            let run = Run::new(held(30_050), vec![kind], 3).until(DAY, 1);
            let wanted = run.wanted();
            assert_eq!(wanted.is_sorted(), !shuffled);
            let sorted = sorted(wanted);
            assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]) && sorted.last() < Some(&30_050));
            sorted
        };
        let single = of(Choice { files: Some(2_000), ..choice() });
        assert_eq!(single.len(), 2_000);
        assert!(single.iter().filter(|file| **file < 15_000).count().abs_diff(1_000) < 150);
        let sets = of(Choice { files: Some(1_950), data_sets: true, ..choice() });
        assert!((1_950..=2_000).contains(&sets.len()), "{}", sets.len());
        let mut of_set: BTreeMap<u64, u64> = BTreeMap::new();
        sets.iter().for_each(|file| *of_set.entry(file / 100).or_default() += 1);
        assert!(of_set.iter().all(|(set, count)| *count == if *set == 300 { 50 } else { 100 }));
        let share = of(Choice { share_per_mille: 100, ..choice() });
        assert!(share.len().abs_diff(3_005) < 300, "{}", share.len());
        let tapes = of(Choice { tapes: 3, ..choice() });
        assert_eq!(tapes, (0..3 * 2_750).collect::<Vec<_>>());
        let all = of(Choice { data_sets: true, files: Some(1 << 50), ..choice() });
        assert_eq!(all.len(), 30_050);
    }
}

#[test]
fn a_carousel_takes_part_after_part_and_releases_what_it_read() {
    let kind = WorkloadKind::Carousel { choice: choice(), part_files: 100, overlap_percent: 10 };
    let run = Run::new(held(1_000), vec![kind], 1).until(DAY, 1_000_000);
    assert_eq!(run.wanted(), (0..1_000).collect::<Vec<_>>());
    assert_eq!(run.outstanding_max, 100);
    let released = run.acts.iter().filter(|(_, act)| matches!(act, Act::Release { .. })).count();
    assert_eq!(released, 1_000);
    assert!(run.users.is_over());
    // Nothing of the second part while more than a tenth of the first one is missing.
    let kind = WorkloadKind::Carousel { choice: choice(), part_files: 100, overlap_percent: 10 };
    let Run { mut users, mut holdings, .. } = Run::new(held(1_000), vec![kind], 1);
    let mut acts = Vec::new();
    users.act(Moment(0), &mut holdings, &mut acts);
    assert_eq!((acts.len(), users.next()), (100, None));
    for sequence in 0..90 {
        let wants = acts.iter().filter(|act| matches!(act, Act::Want { .. })).count();
        assert_eq!(wants, 100, "{sequence}");
        users.done(Moment(5), 0, FileNumber { class: ClassIndex(0), sequence });
        users.act(Moment(5), &mut holdings, &mut acts);
    }
    assert_eq!(acts.iter().filter(|act| matches!(act, Act::Want { .. })).count(), 200);
    assert!(!users.is_over());
}

fn visits(arrivals: Arrivals, files: u32, popularity: f64, repeat_per_mille: u16) -> WorkloadKind {
    WorkloadKind::Users { arrivals, files, popularity, repeat_per_mille }
}

#[test]
fn arrivals_have_their_mean_and_swing_with_day_and_week() {
    let swinging = Arrivals { day_swing_percent: 80, weekend_percent: 30, ..arrivals(2_000.0) };
    let run = Run::new(held(1_000), vec![visits(swinging, 1, 0.0, 0)], 5).until(56 * DAY, 1);
    let count = run.acts.len() as f64;
    assert!((count / (56.0 * 2_000.0) - 1.0).abs() < 0.02, "{count}");
    let part =
        |is_in: &dyn Fn(u64) -> bool| run.acts.iter().filter(|(at, _)| is_in(at.0)).count() as f64 / count;
    // The run begins on a Wednesday: Saturday and Sunday are days 3 and 4.
    let weekend = part(&|at| (3..5).contains(&(at / DAY % 7)));
    assert!((weekend - 0.6 / 5.6).abs() < 0.01, "{weekend}");
    // From eight in the morning to eight in the evening: 1/2 + 0.8 / pi.
    let daytime = part(&|at| (8..20).contains(&(at % DAY / (DAY / 24))));
    assert!((daytime - (0.5 + 0.8 / std::f64::consts::PI)).abs() < 0.01, "{daytime}");
}

#[test]
fn storms_come_by_themselves_and_from_outside() {
    let length = Duration::from_secs(43_200);
    let stormy =
        Arrivals { storms_per_year: 50.0, storm_factor: 10.0, storm_length: length, ..arrivals(100.0) };
    let run = Run::new(held(1_000), vec![visits(stormy, 1, 0.0, 0)], 5).until(365 * DAY, 1);
    // 50 storms of half a day: 25 days of nine times as much more.
    let count = run.acts.len();
    assert!((50_000..70_000).contains(&count), "{count}");
    let mut run = Run::new(held(1_000), vec![visits(arrivals(1_000.0), 1, 0.0, 0)], 5);
    run = run.until(10 * DAY, 1);
    let usual = run.acts.len();
    run.users.storm(Moment(10 * DAY), 10.0);
    run = run.until(20 * DAY, 1);
    let stormed = run.acts.len() - usual;
    assert!((8..12).contains(&((stormed + usual / 2) / usual)), "{stormed} {usual}");
    run.users.storm(Moment(20 * DAY), 1.0);
    let run = run.until(30 * DAY, 1);
    assert!((run.acts.len() - usual - stormed).abs_diff(usual) < usual / 10);
}

#[test]
fn visits_go_to_new_data_sets_and_to_those_visited_before() {
    let run = Run::new(held(100_000), vec![visits(arrivals(1_000.0), 10, 1.0, 0)], 5).until(20 * DAY, 1);
    let wanted = run.wanted();
    assert!(wanted.chunks(10).all(|visit| visit[9] == visit[0] + 9 && visit[0] / 100 == visit[9] / 100));
    // Zipf over 1,000 data sets: the newest has 1 / H(1000) of all.
    let newest = wanted.iter().filter(|file| **file >= 99_900).count() as f64 / wanted.len() as f64;
    assert!((newest - 1.0 / 7.485).abs() < 0.01, "{newest}");
    let run = Run::new(held(1_000_000), vec![visits(arrivals(1_000.0), 1, 0.0, 900)], 5).until(20 * DAY, 1);
    let mut sets: Vec<u64> = run.wanted().iter().map(|file| file / 100).collect();
    let visits = sets.len() as f64;
    sets.sort_unstable();
    sets.dedup();
    let fresh = sets.len() as f64 / visits;
    assert!((fresh - 0.09).abs() < 0.015, "{fresh}");
}

#[test]
fn zipf_draws_have_their_weights() {
    for exponent in [0.0, 0.5, 1.0, 1.3] {
        let law = Zipf::new(exponent, 50);
        let mut random = SplitMix::new(9);
        let mut counts = [0u64; 51];
        (0..200_000).for_each(|_| counts[law.draw(&mut random) as usize] += 1);
        let all: f64 = (1..=50).map(|rank| f64::from(rank).powf(-exponent)).sum();
        for rank in [1u32, 2, 3, 10, 50] {
            let expected = f64::from(rank).powf(-exponent) / all * 200_000.0;
            let found = counts[rank as usize] as f64;
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{exponent} {rank} {found} {expected}");
        }
    }
    assert_eq!(Zipf::new(1.2, 1).draw(&mut SplitMix::new(1)), 1);
}

#[test]
fn ingest_and_backups_put_what_they_should() {
    let kind = WorkloadKind::Ingest { arrivals: arrivals(10.0), burst: 25_000 };
    let run = Run::new(held(0), vec![kind], 2).until(10 * DAY, 1);
    let puts = run.puts();
    assert!(
        puts.len().is_multiple_of(25_000) && (60..150).contains(&(puts.len() / 25_000)),
        "{}",
        puts.len()
    );
    assert_eq!(run.holdings.files(ClassIndex(0)), puts.len() as u64);
    let kind = WorkloadKind::Backup {
        period: Duration::from_secs(86_400),
        window: Duration::from_secs(3_600),
        files: 100,
        restore_at: Some(Duration::from_secs(2 * 86_400 + 7_200)),
        restore_files: 150,
    };
    let run = Run::new(held(0), vec![kind], 2).until(4 * DAY - 1, 1);
    let puts = run.puts();
    assert_eq!((puts.len(), puts[0], puts[99], puts[100]), (400, 0, 3_564_000_000, DAY));
    assert_eq!(run.wanted(), (150..300).collect::<Vec<_>>());
}

#[test]
fn recorded_and_saturating_users_do_what_was_said() {
    let second = Duration::from_secs;
    let puts = vec![second(1), second(1), second(9)];
    let kind = WorkloadKind::Recorded { puts, stages: vec![(second(2), 7), (second(9), 3)] };
    let run = Run::new(held(10), vec![kind], 2).until(DAY, 1);
    let at: Vec<u64> = run.acts.iter().map(|(at, _)| at.0 / 1_000_000).collect();
    assert_eq!((at, run.wanted()), (vec![1, 1, 2, 9, 9], vec![7, 3]));
    assert!(run.users.is_over());
    let mut saturated = model(held(10), vec![WorkloadKind::Saturate { readers: 3, writers: 4 }]);
    saturated.workloads[0].begin = second(5);
    saturated.workloads[0].end = Some(second(8));
    let run = Run { users: Users::new(&saturated, 1), ..Run::new(held(10), Vec::new(), 1) }.until(DAY, 1);
    let streams = |readers, writers| Act::Streams { workload: 0, readers, writers };
    assert_eq!(run.acts, [(Moment(5_000_000), streams(3, 4)), (Moment(8_000_000), streams(0, 0))]);
}

#[test]
fn one_seed_gives_one_run_and_workloads_do_not_disturb_each_other() {
    let visits = || visits(arrivals(500.0), 3, 0.8, 300);
    let alone = Run::new(held(10_000), vec![visits()], 4).until(5 * DAY, 1);
    let again = Run::new(held(10_000), vec![visits()], 4).until(5 * DAY, 1);
    assert_eq!(alone.acts, again.acts);
    assert_ne!(alone.acts, Run::new(held(10_000), vec![visits()], 5).until(5 * DAY, 1).acts);
    let mut end = model(held(10_000), vec![visits()]);
    end.workloads[0].end = Some(Duration::from_secs(86_400));
    let users = Users::new(&end, 4);
    let ended = Run { users, ..Run::new(held(10_000), Vec::new(), 4) }.until(5 * DAY, 1);
    assert!(ended.users.is_over() && ended.acts.len() > 1_000);
    assert_eq!(ended.acts[..], alone.acts[..ended.acts.len()]);
}
