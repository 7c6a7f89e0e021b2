use erasure::Codec;
use isal_sys as _;
use std::time::Instant;
unsafe extern "C" {
    fn gf_gen_cauchy1_matrix(a: *mut u8, m: i32, k: i32);
    fn ec_init_tables(k: i32, rows: i32, a: *const u8, g: *mut u8);
    fn ec_encode_data(
        len: i32,
        k: i32,
        rows: i32,
        g: *const u8,
        data: *const *const u8,
        coding: *const *mut u8,
    );
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let num = |i: usize| args[i].parse::<usize>().unwrap();
    // k m shard memory_bytes seconds ; then traversals tile,cols,ahead,stream
    let (k, m, shard, mem, secs) = (num(1), num(2), num(3) << 10, num(4) << 20, num(5));
    let orders: Vec<()> = args[6..].iter().map(|_| ()).collect();
    let stripes = (mem / (shard * (k + m))).max(1);
    let size = stripes * (k + m) * shard + (2 << 20);
    let mut raw: Vec<u8> = Vec::with_capacity(size);
    unsafe {
        madvise(((raw.as_mut_ptr() as usize + 4095) & !4095) as *mut u8, size - 8192, 14);
    }
    raw.resize(size, 1);
    let off = raw.as_ptr().align_offset(4096);
    let buffer = &mut raw[off..off + stripes * (k + m) * shard];
    for (i, b) in buffer.iter_mut().enumerate() {
        *b = (i.wrapping_mul(2654435761) >> 16) as u8;
    }
    let codec = Codec::new(k, m).unwrap();
    let mut matrix = vec![0u8; (k + m) * k];
    let mut tables = vec![0u8; 32 * k * m];
    unsafe {
        gf_gen_cauchy1_matrix(matrix.as_mut_ptr(), (k + m) as i32, k as i32);
        ec_init_tables(k as i32, m as i32, matrix[k * k..].as_ptr(), tables.as_mut_ptr());
    }
    let mut best = vec![f64::MAX; orders.len() + 1];
    let mut all: Vec<Vec<f64>> = vec![vec![]; orders.len() + 1];
    let flags: Vec<usize> = args[6..].iter().map(|a| a.parse().unwrap()).collect();
    let cells = shard.div_ceil(64 << 10);
    let mut sums = vec![base::Crc32c::default(); cells * (k + m)];
    let begin = Instant::now();
    let reps = (150_000 / (shard * k / 30).max(1)).max(1); // about 150 us at 30 GB/s
    let reps = if stripes > 1 { 1 } else { reps };
    let mut at = 0;
    while begin.elapsed().as_secs() < secs as u64 {
        for who in 0..=orders.len() {
            let burst = if stripes > 1 { (1 << 20) / (shard * k).min(1 << 20) } else { 1 }.max(1);
            let t = Instant::now();
            for _ in 0..burst {
                let stripe = &mut buffer[at * (k + m) * shard..][..(k + m) * shard];
                at = (at + 1) % stripes;
                let (data, parity) = stripe.split_at_mut(k * shard);
                let data: Vec<&[u8]> = data.chunks_exact(shard).collect();
                let mut parity: Vec<&mut [u8]> = parity.chunks_exact_mut(shard).collect();
                if who == 0 {
                    let d: Vec<*const u8> = data.iter().map(|d| d.as_ptr()).collect();
                    let p: Vec<*mut u8> = parity.iter_mut().map(|d| d.as_mut_ptr()).collect();
                    for _ in 0..reps {
                        unsafe {
                            ec_encode_data(
                                shard as i32,
                                k as i32,
                                m as i32,
                                tables.as_ptr(),
                                d.as_ptr(),
                                p.as_ptr(),
                            );
                        }
                    }
                } else {
                    for _ in 0..reps {
                        match flags[who - 1] {
                            0 => codec.encode(&data, &mut parity).unwrap(),
                            1 => {
                                codec.encode_with_checksums(&data, &mut parity, 64 << 10, &mut sums).unwrap()
                            }
                            f => {
                                if f != 5 {
                                    codec.encode(&data, &mut parity).unwrap();
                                }
                                for (s, sh) in
                                    data.iter().copied().chain(parity.iter().map(|p| &**p)).enumerate()
                                {
                                    for (c, cell) in sh.chunks(64 << 10).enumerate() {
                                        sums[s * cells + c] = base::Crc32c::of(cell);
                                    }
                                }
                            }
                        }
                    }
                }
            }
            let e = t.elapsed().as_secs_f64() / (reps * burst) as f64;
            best[who] = best[who].min(e);
            all[who].push(e);
        }
    }
    let g = |s: f64| (k * shard) as f64 / s / 1e9;
    for who in 0..=orders.len() {
        all[who].sort_by(f64::total_cmp);
        let q = all[who][all[who].len() / 4];
        println!(
            "{k}+{m} {}K mem{} {:28} best {:6.1} p25 {:6.1} n {}",
            shard >> 10,
            mem >> 20,
            if who == 0 {
                "isal".to_string()
            } else {
                ["encode", "fused", "separate", "sep3", "x", "crc"][flags[who - 1]].to_string()
            },
            g(best[who]),
            g(q),
            all[who].len()
        );
    }
}
unsafe extern "C" {
    fn madvise(p: *mut u8, n: usize, a: i32) -> i32;
}
