//! What the rows of each table add up to. Every commit writes it beside the rows, so that rows that were lost
//! with a page, or that an older page has brought back, are noticed although each is sound by itself.

use base::Crc64;
use catalogue::Table;

/// The rows of a table in two numbers that do not depend on their order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct RowSum {
    rows: u64,
    sum: u64,
}

impl RowSum {
    /// A row was added.
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.sum = self.sum.wrapping_add(weight(value));
    }

    /// A row was taken away.
    pub(crate) fn take(&mut self, value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(weight(value));
    }
}

/// A number for a row, from the checksum over table, key and fields at the end of its record. Mixed (by the
/// finaliser of SplitMix64), since a CRC is linear: two rows that each lose the same change would cancel each
/// other out.
fn weight(value: &[u8]) -> u64 {
    let mut number = match value.last_chunk::<8>() {
        Some(checksum) => u64::from_le_bytes(*checksum),
        None => Crc64::of(value).0,
    };
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

const VERSION: u8 = 1;
const SUM_BYTES: usize = 17;

/// The sums of all tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sums([RowSum; Table::COUNT]);

impl Default for Sums {
    fn default() -> Self {
        Sums([RowSum::default(); Table::COUNT])
    }
}

impl Sums {
    pub(crate) fn of(&mut self, table: Table) -> &mut RowSum {
        &mut self.0[table.index()]
    }

    /// The first table whose sums differ.
    pub(crate) fn difference(&self, other: &Sums) -> Option<Table> {
        Table::ALL.into_iter().find(|table| self.0[table.index()] != other.0[table.index()])
    }

    /// `[version u8 = 1][commit u64 LE]`, of each table that has or had rows `[number u8][rows u64 LE][sum
    /// u64 LE]`, then the CRC-64/NVME of all before (u64 LE).
    pub(crate) fn encode(&self, commit: u64) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&commit.to_le_bytes());
        for (table, sum) in Table::ALL.into_iter().zip(&self.0) {
            if *sum != RowSum::default() {
                bytes.push(table.number());
                bytes.extend_from_slice(&sum.rows.to_le_bytes());
                bytes.extend_from_slice(&sum.sum.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&Crc64::of(&bytes).0.to_le_bytes());
        assert_eq!(commit_of(&bytes), Some(commit), "what is written is what a reader finds");
        bytes
    }

    /// The sums and the commit that wrote them; `None` if the bytes are damaged, or of a newer Kist.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Sums, u64)> {
        let (commit, tables) = open(bytes)?;
        let mut sums = Sums::default();
        for bytes in tables {
            let table = Table::ALL.into_iter().find(|table| table.number() == bytes[0])?;
            let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
            *sums.of(table) = RowSum { rows: number(1)?, sum: number(9)? };
        }
        Some((sums, commit))
    }
}

/// The commit that wrote encoded sums; `None` as [`Sums::decode`]. Every read asks for it.
pub(crate) fn commit_of(bytes: &[u8]) -> Option<u64> {
    open(bytes).map(|(commit, _)| commit)
}

/// The commit, and what is said of each table.
fn open(bytes: &[u8]) -> Option<(u64, &[[u8; SUM_BYTES]])> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    let (&version, rest) = body.split_first()?;
    let (commit, tables) = rest.split_first_chunk::<8>()?;
    let (tables, rest) = tables.as_chunks::<SUM_BYTES>();
    let is_sound = Crc64::of(body).0.to_le_bytes() == *checksum && version == VERSION && rest.is_empty();
    is_sound.then(|| (u64::from_le_bytes(*commit), tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_and_taken_leaves_nothing() {
        let mut sum = RowSum::default();
        sum.add(b"a record of some length");
        let one = sum;
        sum.add(b"short");
        assert_ne!(sum, one);
        sum.take(b"short");
        assert_eq!(sum, one);
        sum.take(b"a record of some length");
        assert_eq!(sum, RowSum::default());
    }

    /// Two records that lose the same change: with sums of CRCs alone nothing would be seen.
    #[test]
    fn equal_changes_do_not_cancel_out() {
        let checksums = |flip: u64| [0x1234_5678u64 ^ flip, 0x9abc_def0u64 ^ flip];
        let sum_of = |checksums: [u64; 2]| {
            let mut sum = RowSum::default();
            checksums.iter().for_each(|checksum| sum.add(&checksum.to_le_bytes()));
            sum
        };
        assert_ne!(sum_of(checksums(0)), sum_of(checksums(0xff00)));
    }

    #[test]
    fn sums_are_read_as_they_were_written_and_damage_is_seen() {
        let mut sums = Sums::default();
        sums.of(Table::File).add(b"a file's record");
        sums.of(Table::Change).add(b"a change's record");
        let mut bytes = sums.encode(7);
        assert_eq!(Sums::decode(&bytes), Some((sums, 7)));
        assert_eq!(Sums::decode(&Sums::default().encode(0)), Some((Sums::default(), 0)));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Sums::decode(&bytes), None, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(Sums::decode(&bytes[..bytes.len() - 17]), None);
    }
}
