//! What is used up first.

use super::drives::ARITHMETIC;
use super::line::{Section, Sheet, Unit, digits, input};

/// How much of a part is needed, of how much there is, in one unit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Use {
    part: &'static str,
    day: &'static str,
    unit: Unit,
    needed: f64,
    present: f64,
}

impl Use {
    /// `day` is empty for the mean day, else words to be put behind the part.
    /// What is needed comes before what is there.
    pub fn of(part: &'static str, day: &'static str, unit: Unit, amounts: [f64; 2]) -> Self {
        let [needed, present] = amounts;
        Use { part, day, unit, needed, present }
    }

    fn share(&self) -> f64 {
        if self.needed <= 0.0 { 0.0 } else { self.needed / self.present }
    }
}

/// The lines of all uses, and the scarcest part of the mean and of the busiest day in words.
pub(crate) fn bottleneck(sheet: &mut Sheet, uses: &[Use]) -> Option<String> {
    for used in uses {
        let inputs =
            vec![input("a", "needed", used.needed, used.unit), input("b", "there", used.present, used.unit)];
        let mut at = sheet.at(Section::Bottleneck, "");
        at.line(&format!("{}{}", used.part, used.day), Unit::Share, "U = a / b", ARITHMETIC, inputs);
        at.judge(used.share() <= 1.0);
    }
    let scarcest = |is_mean: bool| {
        let of_day = uses.iter().filter(|used| used.day.is_empty() == is_mean);
        of_day.fold(None::<&Use>, |most, used| match most {
            Some(most) if most.share() >= used.share() => Some(most),
            _ => Some(used),
        })
    };
    let words = |used: &Use| {
        let growth = if used.share() > 0.0 { 1.0 / used.share() } else { f64::INFINITY };
        let share = Unit::Share.write(used.share());
        match used.share() {
            share_of if share_of > 1.0 => format!("{} ({share}: too little for the load)", used.part),
            share_of if share_of > 0.0 => {
                format!("{} ({share}; the load may grow {}-fold)", used.part, digits(growth))
            }
            _ => "nothing is asked for: the site names no workload".to_owned(),
        }
    };
    let (mean, peak) = (scarcest(true).map(words), scarcest(false).map(words));
    match (mean, peak) {
        (Some(mean), Some(peak)) if mean == peak => Some(mean),
        (Some(mean), Some(peak)) => Some(format!("mean day: {mean}; busiest day: {peak}")),
        (Some(day), None) | (None, Some(day)) => Some(day),
        (None, None) => None,
    }
}
