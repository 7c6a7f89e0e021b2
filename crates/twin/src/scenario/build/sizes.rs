//! Laws of sizes become tables of quantiles.

use super::finding::{Finding, limited, missing, wrong};
use crate::model::SizeLaw;
use crate::quantity::Bytes;
use crate::scenario::form::{Law, Lognormal, Mix, Quantiles, Sizes};
use crate::scenario::limits::{LISTED_MAX, MIX_MAX};

/// Entries of a table.
const TABLE: usize = 4_096;
/// The largest file.
const SIZE_MAX: u64 = 1 << 50;
/// Mixes inside of mixes.
const MIX_DEPTH_MAX: usize = 4;
/// What 95 of 100 are below, in standard deviations above the mean.
const P95: f64 = 1.644_853_626_951_472;

/// The law of a form.
pub fn law(path: &[&str], sizes: &Sizes) -> Result<SizeLaw, Finding> {
    match sizes {
        Sizes::Fixed(size) => fixed(path, *size),
        Sizes::Law(Law::Fixed(form)) => fixed(path, form.size),
        Sizes::Law(Law::List(form)) => {
            let (found, most) = (form.sizes.len() as u64, LISTED_MAX as u64);
            limited(&below(path, "sizes"), "sizes", found, most, "LISTED_MAX")?;
            if form.sizes.is_empty() {
                return wrong(&below(path, "sizes"), "at least one size");
            }
            Ok(SizeLaw::Listed(form.sizes.iter().map(|size| size.0).collect()))
        }
        Sizes::Law(_) => table(path, sizes, 0).map(SizeLaw::Table),
    }
}

fn below<'a>(path: &[&'a str], key: &'a str) -> Vec<&'a str> {
    path.iter().copied().chain([key]).collect()
}

fn fixed(path: &[&str], size: Bytes) -> Result<SizeLaw, Finding> {
    Ok(SizeLaw::Fixed(sized(path, size)?))
}

fn sized(path: &[&str], size: Bytes) -> Result<u64, Finding> {
    match size.0 {
        1..=SIZE_MAX => Ok(size.0),
        _ => wrong(path, &format!("a file has 1B to {}", Bytes(SIZE_MAX))),
    }
}

/// The quantiles of a law in the middle of each of so many parts.
fn table(path: &[&str], sizes: &Sizes, depth: usize) -> Result<Vec<u64>, Finding> {
    match sizes {
        Sizes::Fixed(size) => Ok(vec![sized(path, *size)?; TABLE]),
        Sizes::Law(Law::Fixed(form)) => Ok(vec![sized(path, form.size)?; TABLE]),
        Sizes::Law(Law::Lognormal(form)) => lognormal(path, form),
        Sizes::Law(Law::Mix(form)) => mix(path, form, depth),
        Sizes::Law(Law::Quantiles(form)) => quantiles(path, form),
        Sizes::Law(Law::List(_)) => wrong(path, "a list is no part of a mix: write quantiles"),
    }
}

fn lognormal(path: &[&str], form: &Lognormal) -> Result<Vec<u64>, Finding> {
    let Lognormal { mean, spread, p95, least, most } = form;
    let mean = sized(&below(path, "mean"), *mean)? as f64;
    let spread = match (spread, p95) {
        (Some(spread), None) => *spread,
        (None, Some(p95)) => {
            // p95 = mean * exp(P95 s - s²/2); the smaller root.
            let ratio = (p95.as_f64() / mean).ln();
            let root = P95 * P95 - 2.0 * ratio;
            if ratio < 0.0 || root < 0.0 {
                return wrong(&below(path, "p95"), "it is 1 to 3.87 times the mean of a lognormal law");
            }
            P95 - root.sqrt()
        }
        (None, None) => return missing(&below(path, "spread")),
        (Some(_), Some(_)) => return wrong(&below(path, "p95"), "say either spread or p95, not both"),
    };
    if !(0.0..=5.0).contains(&spread) {
        return wrong(&below(path, "spread"), "it is 0 to 5: the standard deviation of the logarithm");
    }
    let least = least.map_or(1, |least| least.0.clamp(1, SIZE_MAX));
    let most = most.map_or(SIZE_MAX, |most| most.0.clamp(1, SIZE_MAX));
    if least > most {
        return wrong(&below(path, "least"), "it is no more than most");
    }
    let middle = mean.ln() - spread * spread / 2.0;
    let size = |at: usize| {
        let z = normal_quantile((at as f64 + 0.5) / TABLE as f64);
        ((middle + spread * z).exp().round() as u64).clamp(least, most)
    };
    Ok((0..TABLE).map(size).collect())
}

fn mix(path: &[&str], form: &Mix, depth: usize) -> Result<Vec<u64>, Finding> {
    let parts = below(path, "parts");
    limited(&parts, "parts", form.parts.len() as u64, MIX_MAX as u64, "MIX_MAX")?;
    limited(&parts, "mixes inside of mixes", depth as u64, MIX_DEPTH_MAX as u64, "MIX_DEPTH_MAX")?;
    let sum: f64 = form.parts.iter().map(|part| part.share.0).sum();
    if (sum - 1.0).abs() > 1e-6 {
        return wrong(&parts, &format!("the shares come to {:.1}% and not to 100%", sum * 100.0));
    }
    // Each part's quantiles count as often as its share says; then all are laid out in order.
    let mut all: Vec<(u64, f64)> = Vec::new();
    for (at, part) in form.parts.iter().enumerate() {
        let at = at.to_string();
        let path: Vec<&str> = parts.iter().copied().chain([at.as_str(), "sizes"]).collect();
        let sizes = table(&path, &part.sizes, depth + 1)?;
        let weight = part.share.0 / sizes.len() as f64;
        all.extend(sizes.into_iter().map(|size| (size, weight)));
    }
    all.sort_by_key(|(size, _)| *size);
    let (mut below, mut next) = (0.0, 0);
    let mut table = Vec::with_capacity(TABLE);
    for at in 0..TABLE {
        let wanted = (at as f64 + 0.5) / TABLE as f64;
        while next + 1 < all.len() && below + all[next].1 <= wanted {
            below += all[next].1;
            next += 1;
        }
        table.push(all.get(next).map_or(1, |(size, _)| *size));
    }
    Ok(table)
}

fn quantiles(path: &[&str], form: &Quantiles) -> Result<Vec<u64>, Finding> {
    let Quantiles { at, sizes } = form;
    limited(&below(path, "at"), "quantiles", at.len() as u64, TABLE as u64, "TABLE")?;
    if at.len() != sizes.len() || at.len() < 2 {
        let problem =
            format!("{} shares and {} sizes: two or more, one size for each", at.len(), sizes.len());
        return wrong(&below(path, "at"), &problem);
    }
    let is_whole =
        at.first().is_some_and(|first| first.0 == 0.0) && at.last().is_some_and(|last| last.0 == 1.0);
    if !is_whole || at.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return wrong(&below(path, "at"), "shares rise from \"0%\" to \"100%\"");
    }
    if sizes.windows(2).any(|pair| pair[0] > pair[1]) {
        return wrong(&below(path, "sizes"), "sizes rise with their shares");
    }
    for size in sizes {
        sized(&below(path, "sizes"), *size)?;
    }
    // Between two quantiles sizes are even on a logarithmic scale.
    let size = |entry: usize| {
        let wanted = (entry as f64 + 0.5) / TABLE as f64;
        let right = at.partition_point(|share| share.0 < wanted).clamp(1, at.len() - 1);
        let part = (wanted - at[right - 1].0) / (at[right].0 - at[right - 1].0);
        let [low, high] = [sizes[right - 1], sizes[right]].map(|size| size.as_f64().ln());
        (low + (high - low) * part).exp().round() as u64
    };
    Ok((0..TABLE).map(size).collect())
}

/// The quantile of the normal law (Acklam's rational approximation, relative error below 1.2e-9).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416];
    let poly = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    let tail = |p: f64| {
        let q = (-2.0 * p.ln()).sqrt();
        poly(&C, q) / (poly(&D, q) * q + 1.0)
    };
    if p < 0.02425 {
        tail(p)
    } else if p > 1.0 - 0.02425 {
        -tail(1.0 - p)
    } else {
        let (q, r) = (p - 0.5, (p - 0.5) * (p - 0.5));
        poly(&A, r) * q / (poly(&B, r) * r + 1.0)
    }
}
