//! Reading files on one linear track so that the sum of their waits is small (LTSP): the dynamic programmes
//! of Honoré, Simon and Suter, arXiv 2112.09384.
//!
//! The head begins at the right, moves left, and reads files from left to right. A detour (c, b) is: on
//! reaching the beginning of file c, turn, read what is not yet read up to the end of file b, turn, and go on
//! to the left. Distances are times; reading and moving are equally fast.

/// A file on the track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinearFile {
    /// Its left end.
    pub begin: u64,
    /// Its right end; at or behind `begin`.
    pub end: u64,
    /// How many wait for it.
    pub weight: u64,
}

/// The track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinearTrack {
    /// Where the head stands: at or behind the end of every file.
    pub head: u64,
    /// What a turn takes.
    pub turn: u64,
}

/// An order, and what it costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinearPlan {
    /// The sum over all who wait of the times at which their file is read.
    pub cost: u64,
    /// Indices of files.
    pub order: Vec<usize>,
}

/// Sums stay below this, so that none overflows.
const SUM_MAX: u128 = 1 << 60;

/// What an order costs: the head turns where it has to, and reads through to the next file where that lies to
/// the right. `None` for an index that leads to no file, or where the head is not at the right of all files.
#[must_use]
pub fn linear_cost(files: &[LinearFile], track: LinearTrack, order: &[usize]) -> Option<u64> {
    Sums::new(files, track)?;
    let (mut at, mut time, mut cost, mut leftward) = (track.head, 0u64, 0u64, true);
    for index in order {
        let file = files.get(*index)?;
        if file.begin < at || leftward {
            let turns = if leftward { 1 } else { 2 };
            time = time.checked_add(turns * track.turn)?;
        }
        time = time.checked_add(at.abs_diff(file.begin))?.checked_add(file.end - file.begin)?;
        cost = cost.checked_add(time.checked_mul(file.weight)?)?;
        (at, leftward) = (file.end, false);
    }
    Some(cost)
}

/// The best order of all. `None` if the files are not disjoint and ascending, the head is not at the right of
/// them, or the states times the choices in each are more than `steps`: about k³ · n for k files and n who
/// wait.
#[must_use]
pub fn exact_dp(files: &[LinearFile], track: LinearTrack, steps: u64) -> Option<LinearPlan> {
    let sums = Sums::new(files, track)?;
    let count = files.len();
    let work = (count as u128).pow(3) * u128::from(sums.all + 1);
    if count == 0 || work > u128::from(steps) {
        return (count == 0).then(LinearPlan::nothing);
    }
    let wide = usize::try_from(sums.all + 1).ok()?;
    let place = |a: usize, b: usize, skipped: u64| (a * count + b) * wide + skipped as usize;
    let mut table = vec![(0u64, SKIP); count * count * wide];
    for a in (0..count).rev() {
        for b in a..count {
            for skipped in 0..=sums.right_of(b) {
                let found = if a == b {
                    (2 * sums.size(b) * (skipped + sums.left[b]), SKIP)
                } else {
                    let skip = table[place(a, b - 1, skipped + files[b].weight)].0 + sums.skip(a, b, skipped);
                    let detours = (a + 1..=b).map(|c| {
                        let rest = table[place(a, c - 1, skipped)].0 + table[place(c, b, skipped)].0;
                        (rest + sums.detour(a, c, b, skipped), c)
                    });
                    detours.fold((skip, SKIP), |best, one| if one.0 < best.0 { one } else { best })
                };
                table[place(a, b, skipped)] = found;
            }
        }
    }
    let mut detours = vec![(0, count - 1)];
    let mut open = vec![(0, count - 1, 0)];
    while let Some((a, b, skipped)) = open.pop() {
        match table[place(a, b, skipped)].1 {
            _ if a == b => {}
            SKIP => open.push((a, b - 1, skipped + files[b].weight)),
            c => {
                detours.push((c, b));
                open.extend([(a, c - 1, skipped), (c, b, skipped)]);
            }
        }
    }
    let cost = table[place(0, count - 1, 0)].0 + sums.least();
    Some(LinearPlan { cost, order: order_of(detours, count) })
}

/// The best order without detours inside detours: at most some tenths of a percent above the best of all.
/// `None` as for [`exact_dp`]; the steps are about k² · n.
#[must_use]
pub fn simple_dp(files: &[LinearFile], track: LinearTrack, steps: u64) -> Option<LinearPlan> {
    let sums = Sums::new(files, track)?;
    let count = files.len();
    let work = (count as u128).pow(2) * u128::from(sums.all + 1);
    if count == 0 || work > u128::from(steps) {
        return (count == 0).then(LinearPlan::nothing);
    }
    let wide = usize::try_from(sums.all + 1).ok()?;
    let place = |b: usize, skipped: u64| b * wide + skipped as usize;
    let mut table = vec![(0u64, SKIP); count * wide];
    for b in 0..count {
        for skipped in 0..=sums.right_of(b) {
            table[place(b, skipped)] = if b == 0 {
                (2 * sums.size(0) * skipped, SKIP)
            } else {
                let skip = table[place(b - 1, skipped + files[b].weight)].0 + sums.skip(0, b, skipped);
                let detours = (1..=b).map(|c| {
                    let rest = table[place(c - 1, skipped)].0 + sums.sweep(c, b, skipped);
                    (rest + sums.detour(0, c, b, skipped), c)
                });
                detours.fold((skip, SKIP), |best, one| if one.0 < best.0 { one } else { best })
            };
        }
    }
    let mut detours = vec![(0, count - 1)];
    let (mut b, mut skipped) = (count - 1, 0);
    while b > 0 {
        match table[place(b, skipped)].1 {
            SKIP => (b, skipped) = (b - 1, skipped + files[b].weight),
            c => {
                detours.push((c, b));
                b = c - 1;
            }
        }
    }
    let cost = table[place(count - 1, 0)].0 + sums.least();
    Some(LinearPlan { cost, order: order_of(detours, count) })
}

/// No detour begins at file 0 but the last one.
const SKIP: usize = 0;

impl LinearPlan {
    fn nothing() -> Self {
        LinearPlan { cost: 0, order: Vec::new() }
    }
}

/// Files in the order in which these detours read them; the head meets the rightmost detours first.
fn order_of(mut detours: Vec<(usize, usize)>, count: usize) -> Vec<usize> {
    detours.sort_unstable_by(|one, other| other.cmp(one));
    let (mut read, mut order) = (vec![false; count], Vec::with_capacity(count));
    for (from, to) in detours {
        for (file, read) in read.iter_mut().enumerate().take(to + 1).skip(from) {
            if !std::mem::replace(read, true) {
                order.push(file);
            }
        }
    }
    order
}

struct Sums<'s> {
    files: &'s [LinearFile],
    track: LinearTrack,
    /// Those who wait for files left of each file.
    left: Vec<u64>,
    /// The beginnings of the files left of each, each as often as it is waited for.
    begins: Vec<u64>,
    all: u64,
}

impl<'s> Sums<'s> {
    fn new(files: &'s [LinearFile], track: LinearTrack) -> Option<Self> {
        let ordered = files.windows(2).all(|pair| pair[0].end <= pair[1].begin);
        let within = files.iter().all(|file| file.begin <= file.end && file.end <= track.head);
        let weight: u128 = files.iter().map(|file| u128::from(file.weight)).sum();
        let length = u128::from(track.head) + u128::from(track.turn);
        let sum = length.checked_mul(4 * (files.len() as u128 + 1))?.checked_mul(weight + 1)?;
        if !ordered || !within || sum > SUM_MAX {
            return None;
        }
        let (mut left, mut begins) = (vec![0], vec![0]);
        for (at, file) in files.iter().enumerate() {
            left.push(left[at] + file.weight);
            begins.push(begins[at] + file.begin * file.weight);
        }
        let all = left[files.len()];
        Some(Sums { files, track, left, begins, all })
    }

    fn size(&self, at: usize) -> u64 {
        self.files[at].end - self.files[at].begin
    }

    fn right_of(&self, at: usize) -> u64 {
        self.all - self.left[at + 1]
    }

    /// What every order costs: the way to each file as if nothing else were read.
    fn least(&self) -> u64 {
        let LinearTrack { head, turn } = self.track;
        let way = |(at, file): (usize, &LinearFile)| file.weight * (head - file.begin + self.size(at) + turn);
        self.files.iter().enumerate().map(way).sum()
    }

    fn skip(&self, a: usize, b: usize, skipped: u64) -> u64 {
        let (file, before) = (self.files[b], self.files[b - 1].end);
        2 * (file.end - before) * (skipped + self.left[a]) + 2 * (file.begin - before) * file.weight
    }

    fn detour(&self, a: usize, c: usize, b: usize, skipped: u64) -> u64 {
        let way = self.files[b].end - self.files[c - 1].end;
        2 * way * (skipped + self.left[a]) + 2 * self.track.turn * (skipped + self.left[c])
    }

    /// Reading all from `c` to `b` in one go.
    fn sweep(&self, c: usize, b: usize, skipped: u64) -> u64 {
        let begin = self.files[c].begin;
        let later = self.begins[b + 1] - self.begins[c + 1] - begin * (self.left[b + 1] - self.left[c + 1]);
        2 * (self.files[b].end - begin) * (skipped + self.left[c]) + 2 * later
    }
}
