//! What is used up first.

use super::drives::ARITHMETIC;
use super::line::{Queue, ROOM_UP_TO, Section, Sheet, TOO_LITTLE_FROM, Unit, digits, input};

/// How much of a part is needed, of how much there is, in one unit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Use {
    part: &'static str,
    day: &'static str,
    unit: Unit,
    needed: f64,
    present: f64,
    /// Whether what finds it in use waits: it is scarce before all of it is used.
    is_queue: bool,
}

impl Use {
    /// `day` is empty for the mean day, else words to be put behind the part.
    /// What is needed comes before what is there.
    pub fn of(part: &'static str, day: &'static str, unit: Unit, amounts: [f64; 2]) -> Self {
        let [needed, present] = amounts;
        Use { part, day, unit, needed, present, is_queue: false }
    }

    /// The same of a part that is queued for.
    pub fn queue(part: &'static str, day: &'static str, unit: Unit, amounts: [f64; 2]) -> Self {
        Use { is_queue: true, ..Use::of(part, day, unit, amounts) }
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
        match used.is_queue {
            true => at.judge_as(Queue { used: used.share(), wait: None }.judge()),
            false => at.judge(used.share() <= 1.0),
        }
    }
    let scarcest = |is_mean: bool| {
        let of_day = uses.iter().filter(|used| used.day.is_empty() == is_mean);
        of_day.fold(None::<&Use>, |most, used| match most {
            Some(most) if most.share() >= used.share() => Some(most),
            _ => Some(used),
        })
    };
    let words = |used: &Use| {
        let most = if used.is_queue { ROOM_UP_TO } else { 1.0 };
        let growth = if used.share() > 0.0 { most / used.share() } else { f64::INFINITY };
        let room = Unit::Share.write(ROOM_UP_TO);
        let share = Unit::Share.write(used.share());
        match used.share() {
            share_of if share_of > 1.0 => format!("{} ({share}: too little for the load)", used.part),
            share_of if used.is_queue && share_of >= TOO_LITTLE_FROM => {
                format!("{} ({share}: too little, what comes beside the mean waits long)", used.part)
            }
            share_of if used.is_queue && share_of > ROOM_UP_TO => {
                format!("{} ({share}: above {room} waits grow)", used.part)
            }
            share_of if used.is_queue && share_of > 0.0 => {
                format!("{} ({share}; up to {room} the load may grow {}-fold)", used.part, digits(growth))
            }
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
