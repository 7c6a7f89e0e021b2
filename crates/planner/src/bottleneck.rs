//! What is used up first.

use super::drives::ARITHMETIC;
use super::line::{Queue, ROOM_UP_TO, Section, Sheet, TOO_LITTLE_FROM, Unit, Verdict, digits, input};

/// How much of a part is needed, of how much there is, in one unit, and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Use {
    part: &'static str,
    day: &'static str,
    unit: Unit,
    needed: f64,
    present: f64,
    /// Whether what finds it in use waits: it is scarce before all of it is used.
    is_queue: bool,
    /// The one verdict on this part: its own section, the list of uses and the headline all have it.
    judged: (Verdict, String),
}

impl Use {
    /// `day` is empty for the mean day, else words to be put behind the part.
    /// What is needed comes before what is there.
    pub fn of(part: &'static str, day: &'static str, unit: Unit, amounts: [f64; 2]) -> Self {
        let [needed, present] = amounts;
        let verdict = if share(needed, present) <= 1.0 { Verdict::Meets } else { Verdict::Misses };
        Use { part, day, unit, needed, present, is_queue: false, judged: (verdict, String::new()) }
    }

    /// The same of a part that is queued for.
    pub fn queue(part: &'static str, day: &'static str, unit: Unit, amounts: [f64; 2]) -> Self {
        let judged = Queue { used: share(amounts[0], amounts[1]), wait: None }.judge();
        Use { is_queue: true, judged, ..Use::of(part, day, unit, amounts) }
    }

    /// With a verdict that knows more than the use, such as the wait.
    pub fn judged(self, judged: (Verdict, String)) -> Self {
        Use { judged, ..self }
    }

    fn share(&self) -> f64 {
        share(self.needed, self.present)
    }

    /// What is scarcer comes later: by the verdict, then by how near it is to what it may be used.
    fn scarcity(&self) -> (u8, f64) {
        let verdict = match self.judged.0 {
            Verdict::Meets => 0,
            Verdict::Busy => 1,
            Verdict::Misses => 2,
        };
        (verdict, self.share() / self.most())
    }

    fn most(&self) -> f64 {
        if self.is_queue { ROOM_UP_TO } else { 1.0 }
    }

    fn words(&self) -> String {
        let (used, why) = (self.share(), &self.judged.1);
        let (share, room) = (Unit::Share.write(used), Unit::Share.write(ROOM_UP_TO));
        let growth = || digits(self.most() / used);
        let told = match self.judged.0 {
            _ if used <= 0.0 => return "nothing is asked for: the site names no workload".to_owned(),
            Verdict::Misses if used > 1.0 => format!("{share}: too little for the load"),
            Verdict::Misses if self.is_queue && used >= TOO_LITTLE_FROM => {
                format!("{share}: too little, what comes beside the mean waits long")
            }
            Verdict::Misses => format!("{share}: too little, {why}"),
            Verdict::Busy if used > ROOM_UP_TO => format!("{share}: above {room} waits grow"),
            Verdict::Busy => format!("busy: {why}"),
            Verdict::Meets if self.is_queue => {
                format!("{share}; up to {room} the load may grow {}-fold", growth())
            }
            Verdict::Meets => format!("{share}; the load may grow {}-fold", growth()),
        };
        format!("{} ({told})", self.part)
    }
}

fn share(needed: f64, present: f64) -> f64 {
    if needed <= 0.0 { 0.0 } else { needed / present }
}

/// The lines of all uses, and the scarcest part of the mean and of the busiest day in words.
pub(crate) fn bottleneck(sheet: &mut Sheet, uses: &[Use]) -> Option<String> {
    for used in uses {
        let inputs =
            vec![input("a", "needed", used.needed, used.unit), input("b", "there", used.present, used.unit)];
        let mut at = sheet.at(Section::Bottleneck, "");
        at.line(&format!("{}{}", used.part, used.day), Unit::Share, "U = a / b", ARITHMETIC, inputs);
        at.judge_as(used.judged.clone());
    }
    let scarcest = |is_mean: bool| {
        let of_day = uses.iter().filter(|used| used.day.is_empty() == is_mean);
        of_day.fold(None::<&Use>, |most, used| match most {
            Some(most) if most.scarcity() >= used.scarcity() => Some(most),
            _ => Some(used),
        })
    };
    let (mean, peak) = (scarcest(true).map(Use::words), scarcest(false).map(Use::words));
    match (mean, peak) {
        (Some(mean), Some(peak)) if mean == peak => Some(mean),
        (Some(mean), Some(peak)) => Some(format!("mean day: {mean}; busiest day: {peak}")),
        (Some(day), None) | (None, Some(day)) => Some(day),
        (None, None) => None,
    }
}
