//! Shards up to 2 MiB, at any address, on every kernel, through every operation, against the plain reference.

use super::reference;

use base::{Adler32, Crc32c, Crc64};
use erasure::{Codec, CodecError, Kernel, Lrc, StreamSums, cells_of, find_bad_cell};
use proptest::prelude::*;

/// What a buffer holds outside a shard.
const GUARD: u8 = 0x5A;
/// Bytes before and behind a shard.
const MARGIN: usize = 67;

/// Buffers whose shards begin at different places, none of them aligned to anything.
struct Buffers {
    buffers: Vec<Vec<u8>>,
    length: usize,
    offset: usize,
}

impl Buffers {
    fn new(count: usize, length: usize, offset: usize) -> Buffers {
        Buffers { buffers: vec![vec![GUARD; length + 2 * MARGIN]; count], length, offset }
    }

    /// The same bytes at other addresses. The buffers end where the shards do, so that a sanitizer sees a
    /// read behind them.
    fn of(shards: &[Vec<u8>], offset: usize) -> Buffers {
        let mut buffers = Buffers::new(shards.len(), shards[0].len(), offset);
        buffers.slices_mut().iter_mut().zip(shards).for_each(|(place, shard)| place.copy_from_slice(shard));
        for shard in 0..shards.len() {
            let end = buffers.at(shard) + buffers.length;
            buffers.buffers[shard].truncate(end);
            buffers.buffers[shard].shrink_to_fit();
        }
        buffers
    }

    fn at(&self, shard: usize) -> usize {
        (self.offset + shard * 3) % MARGIN
    }

    fn slices(&self) -> Vec<&[u8]> {
        let shards = self.buffers.iter().enumerate();
        shards.map(|(shard, buffer)| &buffer[self.at(shard)..][..self.length]).collect()
    }

    fn slices_mut(&mut self) -> Vec<&mut [u8]> {
        let (offset, length) = (self.offset, self.length);
        let shards = self.buffers.iter_mut().enumerate();
        shards.map(|(shard, buffer)| &mut buffer[(offset + shard * 3) % MARGIN..][..length]).collect()
    }

    /// Compares, looks for stray writes, and clears for the next operation.
    fn assert_are<S: AsRef<[u8]>>(&mut self, expected: &[S], what: &str) {
        for (shard, (found, expected)) in self.slices().iter().zip(expected).enumerate() {
            assert!(*found == expected.as_ref(), "{what}, shard {shard}");
        }
        for (shard, buffer) in self.buffers.iter().enumerate() {
            let (before, rest) = buffer.split_at(self.at(shard));
            let outside = before.iter().chain(&rest[self.length..]);
            assert!(outside.into_iter().all(|&byte| byte == GUARD), "{what}, a write outside shard {shard}");
        }
        self.buffers.iter_mut().for_each(|buffer| buffer.fill(GUARD));
    }
}

/// One stripe and what every operation on it must give.
struct Case {
    k: usize,
    m: usize,
    cell: usize,
    offset: usize,
    stream_bytes: usize,
    /// All shards in a random order: the first are lost.
    order: Vec<usize>,
    stripe: Vec<Vec<u8>>,
    checksums: Vec<Crc32c>,
    sums: StreamSums,
}

impl Case {
    fn new(k: usize, m: usize, length: usize, cell: usize, offset: usize, seed: u64) -> Case {
        let mut stripe = reference::noise(k, length, seed);
        let stream_bytes = seed as usize % (k * length + 1);
        let stream = stripe.concat();
        let stream = &stream[..stream_bytes];
        let sums = StreamSums {
            adler32: Some(Adler32::of(stream)),
            crc32c: Some(Crc32c::of(stream)),
            crc64nvme: Some(Crc64::of(stream)),
        };
        stripe.extend(reference::parity(&reference::slices(&stripe), m));
        let checksums = stripe.iter().flat_map(|shard| shard.chunks(cell).map(Crc32c::of)).collect();
        let mut order: Vec<usize> = (0..k + m).collect();
        for (place, random) in reference::noise(1, k + m, !seed)[0].iter().enumerate() {
            order.swap(place, usize::from(*random) % (k + m));
        }
        Case { k, m, cell, offset, stream_bytes, order, stripe, checksums, sums }
    }

    fn length(&self) -> usize {
        self.stripe[0].len()
    }

    fn check(&self, kernel: Kernel) {
        let codec = Codec::with_kernel(self.k, self.m, kernel).unwrap();
        let what = format!("{kernel} {}+{}, {} bytes at {}", self.k, self.m, self.length(), self.offset);
        self.check_encoding(&codec, &what);
        self.check_reconstruction(&codec, &what);
    }

    fn check_encoding(&self, codec: &Codec, what: &str) {
        let data = Buffers::of(&self.stripe[..self.k], self.offset);
        let data = data.slices();
        let expected = &self.stripe[self.k..];
        let mut parity = Buffers::new(self.m, self.length(), self.offset + 1);
        codec.encode(&data, &mut parity.slices_mut()).unwrap();
        parity.assert_are(expected, what);

        let mut checksums = vec![Crc32c(7); self.checksums.len()];
        codec.encode_with_checksums(&data, &mut parity.slices_mut(), self.cell, &mut checksums).unwrap();
        parity.assert_are(expected, what);
        assert!(checksums == self.checksums, "{what}");

        checksums.fill(Crc32c(7));
        let begin = StreamSums {
            adler32: Some(Adler32::default()),
            crc32c: Some(Crc32c::default()),
            crc64nvme: Some(Crc64::default()),
        };
        let (mut sums, mut outputs) = (begin, parity.slices_mut());
        codec
            .encode_with_stream_sums(
                &data,
                &mut outputs,
                self.cell,
                &mut checksums,
                &mut sums,
                self.stream_bytes,
            )
            .unwrap();
        parity.assert_are(expected, what);
        assert!(checksums == self.checksums && sums == self.sums, "{what}, {} of stream", self.stream_bytes);
    }

    fn check_reconstruction(&self, codec: &Codec, what: &str) {
        let stripe = Buffers::of(&self.stripe, self.offset);
        let stripe = stripe.slices();
        let (lost, present) = self.order.split_at(self.m);
        let expected: Vec<&[u8]> = lost.iter().map(|&shard| &self.stripe[shard][..]).collect();
        let mut found = Buffers::new(self.m, self.length(), self.offset + 5);
        let bytes: Vec<(usize, &[u8])> = present.iter().map(|&shard| (shard, stripe[shard])).collect();
        let mut wanted: Vec<(usize, &mut [u8])> = lost.iter().copied().zip(found.slices_mut()).collect();
        codec.reconstruct(&bytes, &mut wanted).unwrap();
        found.assert_are(&expected, what);

        let cells = cells_of(self.length(), self.cell);
        let sums = |shard: usize| &self.checksums[shard * cells..][..cells];
        let bytes: Vec<(usize, &[u8], &[Crc32c])> =
            present.iter().map(|&shard| (shard, stripe[shard], sums(shard))).collect();
        let mut places = vec![vec![Crc32c(7); cells]; self.m];
        let mut wanted: Vec<(usize, &mut [u8], &mut [Crc32c])> = lost
            .iter()
            .zip(found.slices_mut().into_iter().zip(&mut places))
            .map(|(&shard, (bytes, places))| (shard, bytes, &mut places[..]))
            .collect();
        codec.reconstruct_verified(&bytes, &mut wanted, self.cell).unwrap();
        found.assert_are(&expected, what);
        assert!(lost.iter().zip(&places).all(|(&shard, places)| places == sums(shard)), "{what}");
        self.check_damage(codec, what);
    }

    /// One bit of a shard that is read changes.
    fn check_damage(&self, codec: &Codec, what: &str) {
        let (lost, present) = self.order.split_at(self.m);
        let (shard, length) = (present[0], self.length());
        if length == 0 {
            return;
        }
        let at = self.stream_bytes % length;
        let mut stripe = Buffers::of(&self.stripe, self.offset);
        stripe.slices_mut()[shard][at] ^= 0x10;
        let stripe = stripe.slices();
        let cells = cells_of(length, self.cell);
        let sums = |shard: usize| &self.checksums[shard * cells..][..cells];
        assert_eq!(find_bad_cell(stripe[shard], self.cell, sums(shard)), Some(at / self.cell), "{what}");
        assert_eq!(find_bad_cell(stripe[lost[0]], self.cell, sums(lost[0])), None, "{what}");
        let bytes: Vec<(usize, &[u8], &[Crc32c])> =
            present.iter().map(|&shard| (shard, stripe[shard], sums(shard))).collect();
        let (mut found, mut places) = (vec![0; length], vec![Crc32c(7); cells]);
        let refused =
            codec.reconstruct_verified(&bytes, &mut [(lost[0], &mut found, &mut places)], self.cell);
        assert_eq!(refused, Err(CodecError::BadCell { shard, cell: at / self.cell }), "{what}");
    }
}

/// Stripes of long shards: a few, or as many as `KIST_LONG_STRIPES` says; 16 in a hunt.
fn cases() -> u32 {
    std::env::var("KIST_LONG_STRIPES").map_or(4, |text| text.parse().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_operation_on_every_kernel(
        k in 1..12usize,
        m in 1..8usize,
        length in prop_oneof![0..=2usize << 20, (0..=16usize).prop_map(|units| units * (128 << 10))],
        cell in prop_oneof![Just(65_536usize), Just(65_536usize), Just(16_384usize), 1000..2_000_000usize],
        offset in 0..MARGIN,
        seed: u64,
    ) {
        let case = Case::new(k, m, length, cell, offset, seed);
        for kernel in Kernel::available() {
            case.check(kernel);
        }
    }

    #[test]
    fn locally_repairable_codes_on_every_kernel(
        k in 1..16usize,
        groups in 0..16usize,
        g in 0..5usize,
        length in 0..=2usize << 20,
        offset in 0..MARGIN,
        lost in (0..16usize, 0..16usize),
        seed: u64,
    ) {
        let l = 1 + groups % k;
        let length = length * 4 / (k + l + g).max(4);
        let mut stripe = reference::noise(k, length, seed);
        stripe.extend(reference::lrc_parity(&reference::slices(&stripe), l, g));
        let mut lost = vec![lost.0 % (k + l + g), lost.1 % (k + l + g)];
        lost.dedup();
        for kernel in Kernel::available() {
            let lrc = Lrc::with_kernel(k, l, g, kernel).unwrap();
            let what = format!("{kernel} {k}+{l}+{g}, {length} bytes at {offset}");
            let shards = Buffers::of(&stripe, offset);
            let shards = shards.slices();
            let mut parity = Buffers::new(l + g, length, offset + 1);
            lrc.encode(&shards[..k], &mut parity.slices_mut()).unwrap();
            parity.assert_are(&stripe[k..], &what);
            let Some(sources) = lrc.repair_sources(&lost, &lost) else {
                prop_assert!(lost.len() > 1 && g == 0, "{what}: {lost:?} can be repaired");
                continue;
            };
            let present: Vec<(usize, &[u8])> =
                sources.into_iter().map(|shard| (shard, shards[shard])).collect();
            let mut found = Buffers::new(lost.len(), length, offset + 5);
            let mut wanted: Vec<(usize, &mut [u8])> =
                lost.iter().copied().zip(found.slices_mut()).collect();
            lrc.reconstruct(&present, &mut wanted).unwrap();
            let expected: Vec<&[u8]> = lost.iter().map(|&shard| &stripe[shard][..]).collect();
            found.assert_are(&expected, &what);
        }
    }
}
