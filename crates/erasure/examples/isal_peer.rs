//! A peer of `kist bench erasure`: ISA-L behind the protocol of `benches/peers/README.md`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufRead;
use std::time::{Duration, Instant};

// The crate builds and links the library; its own declarations cover compression only.
use isal_sys as _;

const VERSION: &str = "2.31+496255c";

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
    cores: usize,
    time: Duration,
    file: String,
}

/// The file that was mapped last, its address and length.
struct Mapping {
    file: String,
    address: *mut u8,
    length: usize,
}

/// Tables for an operation on a code.
struct Prepared {
    tables: Vec<u8>,
    sources: Vec<usize>,
    outputs: Vec<usize>,
}

fn main() {
    let (mut mapping, mut position) = (None, 0);
    let mut prepared = BTreeMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        match parse(&line).and_then(|request| round(&request, &mut mapping, &mut prepared, &mut position)) {
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
    let [k, m, shard, stripes, cores, micros] = numbers[..] else {
        return Err("a request has six numbers".into());
    };
    let in_range = k >= 1 && m >= 1 && k + m <= 255 && shard >= 1 && cores >= 1 && stripes >= cores;
    if !in_range || i32::try_from(shard).is_err() {
        return Err("a number is out of range".into());
    }
    let time = Duration::from_micros(micros as u64);
    Ok(Request { operation: (*operation).into(), k, m, shard, stripes, cores, time, file: (*file).into() })
}

fn round(
    request: &Request,
    mapping: &mut Option<Mapping>,
    prepared: &mut BTreeMap<(String, usize, usize), Prepared>,
    position: &mut usize,
) -> Result<(String, f64), String> {
    let Request { operation, k, m, shard, stripes, cores, time, file } = request;
    let (k, m, shard) = (*k, *m, *shard);
    let length = stripes * (k + m) * shard;
    if !mapping.as_ref().is_some_and(|known| known.file == *file && known.length >= length) {
        *mapping = Some(map(file, length)?);
    }
    let key = (operation.clone(), k, m);
    if !prepared.contains_key(&key) {
        prepared.insert(key.clone(), prepare(operation, k, m)?);
    }
    let (Some(mapping), Some(prepared)) = (mapping.as_ref(), prepared.get(&key)) else {
        return Err("nothing is mapped".into());
    };
    let base = mapping.address as usize;
    let share = stripes / cores;
    // A round goes on where the last one ended, so that no stripe is still in the cache.
    let first = *position % share;
    let begin = Instant::now();
    let coded: usize = std::thread::scope(|scope| {
        let run = |core: usize| {
            let mut coded = 0;
            for at in (0..share).cycle().skip(first) {
                code(prepared, (base + (core * share + at) * (k + m) * shard) as *mut u8, shard);
                coded += k * shard;
                if begin.elapsed() >= *time {
                    break;
                }
            }
            coded
        };
        let others: Vec<_> = (1..*cores).map(|core| scope.spawn(move || run(core))).collect();
        run(0) + others.into_iter().map(|other| other.join().unwrap_or(0)).sum::<usize>()
    });
    let gbps = coded as f64 / begin.elapsed().as_secs_f64() / 1e9;
    *position = (first + coded / (k * shard * cores) + 1) % share;
    Ok((operation.clone(), gbps))
}

/// Maps a file shared and brings its pages in.
fn map(file: &str, length: usize) -> Result<Mapping, String> {
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let open = File::options().read(true).write(true).open(file).map_err(|error| error.to_string())?;
    if open.metadata().map_err(|error| error.to_string())?.len() < length as u64 {
        return Err("the file is too short".into());
    }
    let flags = MapFlags::SHARED | MapFlags::POPULATE;
    // SAFETY: a new mapping, at an address that the system chooses.
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
    Ok(Prepared { tables, sources, outputs })
}

fn code(prepared: &Prepared, stripe: *mut u8, shard: usize) {
    let mut sources = [std::ptr::null::<u8>(); 255];
    let mut outputs = [std::ptr::null_mut::<u8>(); 255];
    for (place, source) in sources.iter_mut().zip(&prepared.sources) {
        *place = stripe.wrapping_add(source * shard).cast_const();
    }
    for (place, output) in outputs.iter_mut().zip(&prepared.outputs) {
        *place = stripe.wrapping_add(output * shard);
    }
    let (columns, rows) = (prepared.sources.len() as i32, prepared.outputs.len() as i32);
    // SAFETY: the stripe lies within the mapping, and the tables are those of this shape.
    unsafe {
        let tables = prepared.tables.as_ptr();
        ec_encode_data(shard as i32, columns, rows, tables, sources.as_ptr(), outputs.as_ptr());
    }
}
