//! What a codec refuses, and that it writes nothing when it does.

use erasure::{Codec, CodecError, Kernel, MAX_SHARDS};

const CLEAN: u8 = 0x5A;

/// Asks a 4+2 codec for shards given as (index, length), and returns its refusal.
#[track_caller]
fn refusal(present: &[(usize, usize)], wanted: &[(usize, usize)]) -> CodecError {
    let codec = Codec::new(4, 2).unwrap();
    let sources: Vec<(usize, Vec<u8>)> = present.iter().map(|&(shard, len)| (shard, vec![1; len])).collect();
    let sources: Vec<(usize, &[u8])> =
        sources.iter().map(|(shard, bytes)| (*shard, bytes.as_slice())).collect();
    let mut outputs: Vec<Vec<u8>> = wanted.iter().map(|&(_, len)| vec![CLEAN; len]).collect();
    let mut lent: Vec<(usize, &mut [u8])> =
        wanted.iter().zip(&mut outputs).map(|(&(shard, _), bytes)| (shard, bytes.as_mut_slice())).collect();
    let error = codec.reconstruct(&sources, &mut lent).unwrap_err();
    assert!(outputs.iter().flatten().all(|&byte| byte == CLEAN), "a refused call wrote");
    error
}

#[test]
fn shapes_have_limits() {
    for (k, m) in [(1, 0), (1, 254), (255, 0), (MAX_SHARDS - 4, 4)] {
        let codec = Codec::new(k, m).unwrap();
        assert_eq!((codec.data_shards(), codec.parity_shards()), (k, m));
    }
    for (k, m) in [(0, 0), (0, 4), (256, 0), (255, 1), (1, 255), (usize::MAX, usize::MAX)] {
        let expected = CodecError::UnsupportedShape { data_shards: k, parity_shards: m };
        assert_eq!(Codec::new(k, m).unwrap_err(), expected);
    }
}

#[test]
fn only_available_kernels_are_accepted() {
    let available = Kernel::available();
    assert_eq!(available.first(), Some(&Kernel::Portable));
    assert_eq!(available.last(), Some(&Kernel::best()));
    assert_eq!(Codec::new(4, 2).unwrap().kernel(), Kernel::best());
    for kernel in Kernel::ALL {
        match Codec::with_kernel(4, 2, kernel) {
            Ok(codec) => assert!(available.contains(&kernel) && codec.kernel() == kernel),
            Err(error) => {
                assert!(!available.contains(&kernel));
                assert_eq!(error, CodecError::KernelUnavailable { kernel });
            }
        }
    }
}

#[test]
fn encode_refuses_wrong_counts_and_lengths() {
    let codec = Codec::new(2, 1).unwrap();
    let (long, short) = ([1u8; 8], [1u8; 7]);
    let check = |data: &[&[u8]], parity_lens: &[usize], expected: CodecError| {
        let mut parity: Vec<Vec<u8>> = parity_lens.iter().map(|&len| vec![CLEAN; len]).collect();
        let mut lent: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        assert_eq!(codec.encode(data, &mut lent), Err(expected));
        assert!(parity.iter().flatten().all(|&byte| byte == CLEAN), "a refused call wrote");
    };
    check(&[&long], &[8], CodecError::DataShardCount { expected: 2, given: 1 });
    check(&[&long, &long, &long], &[8], CodecError::DataShardCount { expected: 2, given: 3 });
    check(&[&long, &long], &[], CodecError::ParityShardCount { expected: 1, given: 0 });
    check(&[&long, &long], &[8, 8], CodecError::ParityShardCount { expected: 1, given: 2 });
    check(&[&long, &short], &[8], CodecError::LengthsDiffer { shard: 1, expected: 8, given: 7 });
    check(&[&long, &long], &[9], CodecError::LengthsDiffer { shard: 2, expected: 8, given: 9 });
}

#[test]
fn reconstruct_refuses_too_few_shards() {
    let expected = CodecError::TooFewPresent { present: 3, needed: 4 };
    assert_eq!(refusal(&[(0, 8), (4, 8), (5, 8)], &[(1, 8)]), expected);
    assert_eq!(refusal(&[], &[]), CodecError::TooFewPresent { present: 0, needed: 4 });
}

#[test]
fn reconstruct_refuses_wrong_indexes() {
    let unknown = CodecError::UnknownShard { shard: 6, shards: 6 };
    assert_eq!(refusal(&[(0, 8), (1, 8), (2, 8), (6, 8)], &[(3, 8)]), unknown);
    assert_eq!(refusal(&[(0, 8), (1, 8), (2, 8), (3, 8)], &[(6, 8)]), unknown);
    let far = CodecError::UnknownShard { shard: usize::MAX, shards: 6 };
    assert_eq!(refusal(&[(0, 8), (1, 8), (2, 8), (3, 8)], &[(usize::MAX, 8)]), far);
    assert_eq!(refusal(&[(0, 8), (1, 8), (2, 8), (2, 8)], &[(3, 8)]), CodecError::RepeatedShard { shard: 2 });
    assert_eq!(
        refusal(&[(0, 8), (1, 8), (2, 8), (3, 8)], &[(5, 8), (5, 8)]),
        CodecError::RepeatedShard { shard: 5 }
    );
    assert_eq!(
        refusal(&[(0, 8), (1, 8), (2, 8), (3, 8)], &[(5, 8), (2, 8)]),
        CodecError::WantedIsPresent { shard: 2 }
    );
}

#[test]
fn reconstruct_refuses_unequal_lengths() {
    assert_eq!(
        refusal(&[(0, 8), (1, 8), (2, 7), (3, 8)], &[(4, 8)]),
        CodecError::LengthsDiffer { shard: 2, expected: 8, given: 7 }
    );
    assert_eq!(
        refusal(&[(0, 8), (1, 8), (2, 8), (3, 8)], &[(4, 8), (5, 9)]),
        CodecError::LengthsDiffer { shard: 5, expected: 8, given: 9 }
    );
    // A shard beyond the k that are read is checked too.
    assert_eq!(
        refusal(&[(0, 8), (1, 8), (2, 8), (3, 8), (4, 1)], &[(5, 8)]),
        CodecError::LengthsDiffer { shard: 4, expected: 8, given: 1 }
    );
}

#[test]
fn errors_name_the_object_and_the_remedy() {
    let text = CodecError::TooFewPresent { present: 3, needed: 4 }.to_string();
    assert_eq!(text, "3 shards are present and 4 are needed: find more or use another copy");
    let text = CodecError::KernelUnavailable { kernel: Kernel::Gfni }.to_string();
    assert!(text.contains("gfni"), "{text}");
}
