//! Laws of sizes.

use super::finding::{Finding, limited, missing, wrong};
use crate::form::{Exponential, Law, Lognormal, Mix, Quantiles, Sizes, Uniform};
use crate::laws;
use crate::limits::{LISTED_MAX, MIX_MAX};
use crate::model::SizeLaw;
use quantity::Bytes;

/// The largest file: a pebibyte.
const SIZE_MAX: u64 = 1 << 50;
/// Mixes inside of mixes.
const MIX_DEPTH_MAX: usize = 4;
/// Measured quantiles.
const QUANTILES_MAX: usize = 10_000;
/// What 95 of 100 are below, in standard deviations above the mean.
const P95: f64 = 1.644_853_626_951_472;

/// The law of a form.
pub fn law(path: &[&str], sizes: &Sizes) -> Result<SizeLaw, Finding> {
    if let Sizes::Law(Law::List(form)) = sizes {
        let path = below(path, "sizes");
        limited(&path, "sizes", form.sizes.len() as u64, LISTED_MAX as u64, "LISTED_MAX")?;
        if form.sizes.is_empty() {
            return wrong(&path, "at least one size");
        }
        let sizes = form.sizes.iter().map(|size| sized(&path, *size));
        return sizes.collect::<Result<_, _>>().map(SizeLaw::Listed);
    }
    let law = drawn(path, sizes, 0)?;
    law.table().or_else(|error| wrong(path, &error.to_string()))
}

fn below<'a>(path: &[&'a str], key: &'a str) -> Vec<&'a str> {
    path.iter().copied().chain([key]).collect()
}

fn sized(path: &[&str], size: Bytes) -> Result<u64, Finding> {
    match size.0 {
        1..=SIZE_MAX => Ok(size.0),
        _ => wrong(path, &format!("a file has 1B to {}", Bytes(SIZE_MAX))),
    }
}

/// A law that sizes are drawn from.
fn drawn(path: &[&str], sizes: &Sizes, depth: usize) -> Result<laws::Law, Finding> {
    match sizes {
        Sizes::Fixed(size) => sized(path, *size).map(laws::Law::Fixed),
        Sizes::Law(Law::Fixed(form)) => sized(&below(path, "size"), form.size).map(laws::Law::Fixed),
        Sizes::Law(Law::Uniform(Uniform { least, most })) => {
            let (least, most) = bounds(path, Some(*least), Some(*most))?;
            Ok(laws::Law::Uniform { least, most })
        }
        Sizes::Law(Law::Exponential(Exponential { mean, least, most })) => {
            let mean = sized(&below(path, "mean"), *mean)? as f64;
            let (least, most) = bounds(path, *least, *most)?;
            Ok(laws::Law::Exponential { mean, least, most })
        }
        Sizes::Law(Law::Lognormal(form)) => lognormal(path, form),
        Sizes::Law(Law::Mix(form)) => mix(path, form, depth),
        Sizes::Law(Law::Quantiles(form)) => quantiles(path, form),
        Sizes::Law(Law::List(_)) => wrong(path, "a list is no part of a mix: write quantiles"),
    }
}

fn bounds(path: &[&str], least: Option<Bytes>, most: Option<Bytes>) -> Result<(u64, u64), Finding> {
    let least = least.map_or(Ok(1), |least| sized(&below(path, "least"), least))?;
    let most = most.map_or(Ok(SIZE_MAX), |most| sized(&below(path, "most"), most))?;
    match least <= most {
        true => Ok((least, most)),
        false => wrong(&below(path, "least"), "it is no more than most"),
    }
}

fn lognormal(path: &[&str], form: &Lognormal) -> Result<laws::Law, Finding> {
    let Lognormal { mean, spread, p95, least, most } = form;
    let mean = sized(&below(path, "mean"), *mean)? as f64;
    let sigma = match (spread, p95) {
        (Some(spread), None) => *spread,
        (None, Some(p95)) => {
            // p95 = mean * exp(P95 s - s²/2), of which the smaller root is meant.
            let ratio = (p95.as_f64() / mean).ln();
            let root = P95 * P95 - 2.0 * ratio;
            if ratio.is_nan() || ratio < 0.0 || root < 0.0 {
                return wrong(&below(path, "p95"), "it is 1 to 3.86 times the mean of a lognormal law");
            }
            P95 - root.sqrt()
        }
        (None, None) => return missing(&below(path, "spread")),
        (Some(_), Some(_)) => return wrong(&below(path, "p95"), "say either spread or p95, not both"),
    };
    if !(0.0..=5.0).contains(&sigma) {
        return wrong(&below(path, "spread"), "it is 0 to 5: the standard deviation of the logarithm");
    }
    let (least, most) = bounds(path, *least, *most)?;
    Ok(laws::Law::Lognormal { mean, sigma, least, most })
}

fn mix(path: &[&str], form: &Mix, depth: usize) -> Result<laws::Law, Finding> {
    let parts = below(path, "parts");
    limited(&parts, "parts", form.parts.len() as u64, MIX_MAX as u64, "MIX_MAX")?;
    limited(&parts, "mixes inside of mixes", depth as u64, MIX_DEPTH_MAX as u64, "MIX_DEPTH_MAX")?;
    let sum: f64 = form.parts.iter().map(|part| part.share.0).sum();
    if (sum - 1.0).abs() > 1e-6 {
        return wrong(&parts, &format!("the shares come to {:.1}% and not to 100%", sum * 100.0));
    }
    let part = |(at, part): (usize, &crate::form::MixPart)| {
        let at = at.to_string();
        let path: Vec<&str> = parts.iter().copied().chain([at.as_str(), "sizes"]).collect();
        Ok((part.share.0, drawn(&path, &part.sizes, depth + 1)?))
    };
    form.parts.iter().enumerate().map(part).collect::<Result<_, _>>().map(laws::Law::Mix)
}

fn quantiles(path: &[&str], form: &Quantiles) -> Result<laws::Law, Finding> {
    let Quantiles { at, sizes, mean } = form;
    limited(&below(path, "at"), "quantiles", at.len() as u64, QUANTILES_MAX as u64, "QUANTILES_MAX")?;
    if at.len() != sizes.len() || at.len() < 2 {
        let problem =
            format!("{} shares and {} sizes: two or more, one size for each", at.len(), sizes.len());
        return wrong(&below(path, "at"), &problem);
    }
    let ends = at.first().map(|first| first.0).zip(at.last().map(|last| last.0));
    if ends != Some((0.0, 1.0)) || at.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
        return wrong(&below(path, "at"), "shares rise from \"0%\" to \"100%\"");
    }
    if sizes.windows(2).any(|pair| pair[0] > pair[1]) {
        return wrong(&below(path, "sizes"), "sizes rise with their shares");
    }
    let point =
        |(share, size): (&quantity::Share, &Bytes)| Ok((share.0, sized(&below(path, "sizes"), *size)?));
    let points = at.iter().zip(sizes).map(point).collect::<Result<_, Finding>>()?;
    let mean = mean.map(|mean| sized(&below(path, "mean"), mean)).transpose()?;
    Ok(laws::Law::Quantiles { points, mean: mean.map(|mean| mean as f64) })
}
