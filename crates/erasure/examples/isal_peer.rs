//! A peer of `kist bench erasure`: ISA-L behind the protocol of `benches/peers/README.md`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufRead;
use std::time::{Duration, Instant};

// The crate builds and links the library; its own declarations cover compression only.
use isal_sys as _;

const VERSION: &str = "2.31+496255c";
/// Bytes that are worked on between two looks at the clock.
const BATCH_BYTES: usize = 1 << 20;

unsafe extern "C" {
    fn gf_gen_cauchy1_matrix(matrix: *mut u8, rows: i32, columns: i32);
    fn gf_invert_matrix(from: *mut u8, to: *mut u8, size: i32) -> i32;
    fn ec_init_tables(columns: i32, rows: i32, weights: *const u8, tables: *mut u8);
    fn ec_encode_data(
        length: i32,
        columns: i32,
        rows: i32,
        tables: *const u8,
        data: *const *const u8,
        parity: *const *mut u8,
    );
}

struct Request {
    operation: String,
    k: usize,
    m: usize,
    shard: usize,
    stripes: usize,
    first: usize,
    time: Duration,
    file: String,
}

/// The file that was mapped last, its address and length.
struct Mapping {
    file: String,
    address: *mut u8,
    length: usize,
}

/// Tables for an operation on a code, the shards that it reads and writes, and room for their addresses.
struct Prepared {
    tables: Vec<u8>,
    sources: Vec<usize>,
    outputs: Vec<usize>,
    from: Vec<*const u8>,
    to: Vec<*mut u8>,
}

fn main() {
    let mut mapping = None;
    let mut prepared = BTreeMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match parse(&line).and_then(|request| round(&request, &mut mapping, &mut prepared)) {
            Ok((operation, gbps)) => {
                print!("{{\"peer\":\"isa-l\",\"version\":\"{VERSION}\",\"operation\":\"{operation}\",");
                println!("\"gbps\":{gbps:.3}}}");
            }
            Err(error) => println!("{{\"error\":{error:?}}}"),
        }
    }
}

fn parse(line: &str) -> Result<Request, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [operation, numbers @ .., file] = words.as_slice() else { return Err("not a request".into()) };
    let numbers: Vec<usize> = numbers.iter().filter_map(|word| word.parse().ok()).collect();
    let [k, m, shard, stripes, first, micros] = numbers[..] else {
        return Err("a request has six numbers".into());
    };
    let in_range = k >= 1 && m >= 1 && k + m <= 255 && shard >= 1 && first < stripes;
    if !in_range || i32::try_from(shard).is_err() {
        return Err("a number is out of range".into());
    }
    let time = Duration::from_micros(micros as u64);
    Ok(Request { operation: (*operation).into(), k, m, shard, stripes, first, time, file: (*file).into() })
}

fn round(
    request: &Request,
    mapping: &mut Option<Mapping>,
    prepared: &mut BTreeMap<(String, usize, usize), Prepared>,
) -> Result<(String, f64), String> {
    let Request { operation, k, m, shard, stripes, first, time, file } = request;
    let (k, m, shard) = (*k, *m, *shard);
    if mapping.as_ref().is_none_or(|known| known.file != *file) {
        *mapping = Some(map(file)?);
    }
    let key = (operation.clone(), k, m);
    if !prepared.contains_key(&key) {
        prepared.insert(key.clone(), prepare(operation, k, m)?);
    }
    let (Some(mapping), Some(prepared)) = (mapping.as_ref(), prepared.get_mut(&key)) else {
        return Err("nothing is mapped".into());
    };
    let stripe_bytes = (k + m) * shard;
    if stripes * stripe_bytes > mapping.length {
        return Err("the file is too short".into());
    }
    let (mut at, mut coded) = (*first, 0);
    let begin = Instant::now();
    loop {
        for _ in 0..(BATCH_BYTES / stripe_bytes).max(1) {
            code(prepared, mapping.address.wrapping_add(at * stripe_bytes), shard);
            coded += k * shard;
            at += 1;
            if at == *stripes {
                at = 0;
            }
        }
        let elapsed = begin.elapsed();
        if elapsed >= *time {
            return Ok((operation.clone(), coded as f64 / elapsed.as_secs_f64() / 1e9));
        }
    }
}

/// Maps the whole of a file shared and brings its pages in.
fn map(file: &str) -> Result<Mapping, String> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let open = File::options().read(true).write(true).open(file).map_err(|error| error.to_string())?;
    let length = open.metadata().map_err(|error| error.to_string())?.len();
    let length = usize::try_from(length).map_err(|error| error.to_string())?;
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping, at an address that the system chooses; it stays for the life of the process.
    let address =
        unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, &open, 0) }
            .map_err(|error| error.to_string())?;
    Ok(Mapping { file: file.into(), address: address.cast(), length })
}

fn prepare(operation: &str, k: usize, m: usize) -> Result<Prepared, String> {
    let int = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
    let mut matrix = vec![0u8; (k + m) * k];
    // SAFETY: the matrix has k + m rows of k weights.
    unsafe { gf_gen_cauchy1_matrix(matrix.as_mut_ptr(), int(k + m), int(k)) };
    let lost = match operation {
        "encode" => 0,
        "decode-1" => 1,
        "decode-m" => m.min(k),
        _ => return Err(format!("operation {operation} is not offered")),
    };
    let (rows, sources, outputs): (Vec<u8>, Vec<usize>, Vec<usize>) = if lost == 0 {
        (matrix[k * k..].to_vec(), (0..k).collect(), (k..k + m).collect())
    } else {
        let sources: Vec<usize> = (lost..k + lost).collect();
        let mut chosen: Vec<u8> =
            sources.iter().flat_map(|shard| matrix[shard * k..(shard + 1) * k].to_vec()).collect();
        let mut inverse = vec![0u8; k * k];
        // SAFETY: both matrices have k rows of k weights.
        if unsafe { gf_invert_matrix(chosen.as_mut_ptr(), inverse.as_mut_ptr(), int(k)) } != 0 {
            return Err("the matrix is singular".into());
        }
        (inverse[..lost * k].to_vec(), sources, (0..lost).collect())
    };
    let mut tables = vec![0u8; 32 * rows.len()];
    // SAFETY: there are as many rows of k weights as outputs, and 32 bytes of tables for each weight.
    unsafe { ec_init_tables(int(k), int(outputs.len()), rows.as_ptr(), tables.as_mut_ptr()) };
    let (from, to) = (vec![std::ptr::null(); sources.len()], vec![std::ptr::null_mut(); outputs.len()]);
    Ok(Prepared { tables, sources, outputs, from, to })
}

fn code(prepared: &mut Prepared, stripe: *mut u8, shard: usize) {
    let Prepared { tables, sources, outputs, from, to } = prepared;
    for (place, source) in from.iter_mut().zip(&*sources) {
        *place = stripe.wrapping_add(source * shard).cast_const();
    }
    for (place, output) in to.iter_mut().zip(&*outputs) {
        *place = stripe.wrapping_add(output * shard);
    }
    let (columns, rows) = (sources.len() as i32, outputs.len() as i32);
    // SAFETY: the stripe lies within the mapping, and the tables are those of this shape.
    unsafe { ec_encode_data(shard as i32, columns, rows, tables.as_ptr(), from.as_ptr(), to.as_ptr()) };
}
