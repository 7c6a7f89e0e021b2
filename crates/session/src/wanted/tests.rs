use std::convert::Infallible;

use base::BlockAddress;

use super::*;

/// Files 0, 1, 2, … stand in packs of ten; those of even packs are recalled whole. Some were asked for, a few
/// of these are another tape's to give, and some of all are in the pool.
struct Set {
    asked: Vec<u64>,
    others: Vec<u64>,
    online: Vec<u64>,
    page: usize,
}

fn file(number: u64) -> Wanted<()> {
    let segment = Segment { begin: BlockAddress(number), end: BlockAddress(number + 1) };
    Wanted { file: FileId(number), segment, length: ByteCount(1), along: false, place: () }
}

impl Set {
    fn page_of(&self, files: &[u64], after: Option<usize>) -> WantedPage<(), usize> {
        let from = after.unwrap_or(0);
        let page: Vec<_> = files.iter().skip(from).take(self.page).map(|number| file(*number)).collect();
        let next = Some(from + page.len()).filter(|_| !page.is_empty());
        WantedPage { files: page, next }
    }
}

impl TapeSet for Set {
    type Error = Infallible;
    type Cursor = usize;
    type Place = ();
    type Pack = u64;

    fn wanted(&mut self, after: Option<usize>) -> Result<WantedPage<(), usize>, Infallible> {
        Ok(self.page_of(&self.asked, after))
    }

    fn claim(&mut self, files: &[FileId]) -> Vec<bool> {
        files.iter().map(|file| !self.others.contains(&file.0)).collect()
    }

    fn whole_pack(&mut self, wanted: &Wanted<()>) -> Result<Option<u64>, Infallible> {
        Ok(Some(wanted.file.0 / 10).filter(|pack| pack % 2 == 0))
    }

    fn away_in_pack(&mut self, pack: u64, after: Option<usize>) -> Result<WantedPage<(), usize>, Infallible> {
        let away: Vec<u64> =
            (pack * 10..pack * 10 + 10).filter(|number| !self.online.contains(number)).collect();
        Ok(self.page_of(&away, after))
    }
}

fn gathered(set: &mut Set, given: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let Ok(wanted) = gather_wanted(set, |file| given.contains(&file.0));
    let (along, asked): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|wanted| wanted.along);
    let numbers = |files: Vec<Wanted<()>>| files.iter().map(|wanted| wanted.file.0).collect();
    (numbers(asked), numbers(along))
}

#[test]
fn what_was_asked_for_comes_with_the_rest_of_packs_that_are_recalled_whole() {
    for page in [1, 3, 100] {
        let mut set = Set { asked: vec![3, 4, 12, 25], others: vec![12], online: vec![0, 1, 20, 21], page };
        let (asked, along) = gathered(&mut set, &[4, 9, 22]);
        assert_eq!(asked, [3, 25], "not what was given, nor what another tape gives");
        assert_eq!(along, [2, 5, 6, 7, 8, 23, 24, 26, 27, 28, 29]);
    }
}

#[test]
fn of_packs_that_are_not_recalled_whole_nothing_comes_along() {
    let mut set = Set { asked: vec![11], others: vec![], online: vec![], page: 5 };
    assert_eq!(gathered(&mut set, &[]), (vec![11], vec![]));
    assert_eq!(gathered(&mut set, &[11]), (vec![], vec![]), "and nothing of what was given");
}

/// A tape may hold several parts of a file that is larger than a tape: one is read at a time.
#[test]
fn of_a_file_that_is_met_twice_one_part_is_read() {
    for page in [1, 2, 100] {
        let mut set = Set { asked: vec![13, 15, 13, 17], others: vec![], online: vec![], page };
        assert_eq!(gathered(&mut set, &[]), (vec![13, 15, 17], vec![]));
        assert_eq!(gathered(&mut set, &[13]), (vec![15, 17], vec![]));
    }
}
