//! The formulas of the plan, computed from the very text that is printed.

use std::iter::Peekable;
use std::str::Chars;

/// Servers that [`erlang_c`] goes through; more are taken as so many.
const SERVERS_MAX: f64 = 1e6;

/// A formula's right side.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Expression {
    Number(f64),
    Symbol(String),
    Call(String, Vec<Expression>),
    Binary(char, Box<Expression>, Box<Expression>),
    Parenthesis(Box<Expression>),
}

/// Reads `a / (b + 2) * min(c, d)`. Names are letters, digits and underscores.
///
/// # Panics
/// If the text is no formula: they are all constants of this crate.
pub(crate) fn parse(text: &str) -> Expression {
    let mut parser = Parser { text, chars: text.chars().peekable() };
    let expression = parser.sum();
    parser.skip();
    assert!(parser.chars.next().is_none(), "{text:?} goes on behind a formula");
    expression
}

struct Parser<'a> {
    text: &'a str,
    chars: Peekable<Chars<'a>>,
}

impl Parser<'_> {
    fn skip(&mut self) {
        while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
    }

    fn takes(&mut self, wanted: char) -> bool {
        self.skip();
        self.chars.next_if_eq(&wanted).is_some()
    }

    fn chain(&mut self, operators: [char; 2], part: fn(&mut Self) -> Expression) -> Expression {
        let mut left = part(self);
        loop {
            let Some(operator) = operators.into_iter().find(|operator| self.takes(*operator)) else {
                return left;
            };
            left = Expression::Binary(operator, Box::new(left), Box::new(part(self)));
        }
    }

    fn sum(&mut self) -> Expression {
        self.chain(['+', '-'], Self::product)
    }

    fn product(&mut self) -> Expression {
        self.chain(['*', '/'], Self::atom)
    }

    fn atom(&mut self) -> Expression {
        if self.takes('(') {
            let inner = self.sum();
            assert!(self.takes(')'), "{:?} has an open parenthesis", self.text);
            return Expression::Parenthesis(Box::new(inner));
        }
        let mut word = String::new();
        while let Some(c) = self.chars.next_if(|c| c.is_alphanumeric() || matches!(c, '_' | '.')) {
            word.push(c);
        }
        assert!(!word.is_empty(), "{:?} lacks a value", self.text);
        if let Ok(number) = word.parse::<f64>() {
            return Expression::Number(number);
        }
        if !self.takes('(') {
            return Expression::Symbol(word);
        }
        let mut arguments = vec![self.sum()];
        while self.takes(',') {
            arguments.push(self.sum());
        }
        assert!(self.takes(')'), "{:?} has an open parenthesis", self.text);
        Expression::Call(word, arguments)
    }
}

impl Expression {
    /// The value; infinite or no number where a division by zero makes it so.
    ///
    /// # Panics
    /// If a function is not known.
    pub fn value(&self, symbol: &impl Fn(&str) -> f64) -> f64 {
        match self {
            Expression::Number(number) => *number,
            Expression::Symbol(name) => symbol(name),
            Expression::Parenthesis(inner) => inner.value(symbol),
            Expression::Binary(operator, left, right) => {
                let (left, right) = (left.value(symbol), right.value(symbol));
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
            Expression::Call(name, arguments) => {
                let values: Vec<f64> = arguments.iter().map(|argument| argument.value(symbol)).collect();
                call(name, &values)
            }
        }
    }

    /// The formula with each symbol replaced by a text.
    pub fn with(&self, symbol: &impl Fn(&str) -> String) -> String {
        match self {
            Expression::Number(number) => number.to_string(),
            Expression::Symbol(name) => symbol(name),
            Expression::Parenthesis(inner) => format!("({})", inner.with(symbol)),
            Expression::Binary(operator, left, right) => {
                let operator = if *operator == '*' { 'x' } else { *operator };
                format!("{} {operator} {}", left.with(symbol), right.with(symbol))
            }
            Expression::Call(name, arguments) => {
                let arguments: Vec<String> = arguments.iter().map(|part| part.with(symbol)).collect();
                format!("{name}({})", arguments.join(", "))
            }
        }
    }
}

fn call(name: &str, values: &[f64]) -> f64 {
    match (name, values) {
        ("min", values) => values.iter().copied().fold(f64::INFINITY, f64::min),
        ("max", values) => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        // What comes within rounding of a whole number is that number: 1.1 / 1.1 drives are one.
        ("ceil", [value]) => (value - value.abs() * 1e-12).ceil(),
        ("floor", [value]) => (value + value.abs() * 1e-12).floor(),
        ("erlang_c", [servers, load]) => erlang_c(*servers, *load),
        _ => panic!("there is no function {name} of {} values", values.len()),
    }
}

/// The probability that one who comes must wait, with so many servers and an offered load in servers; 1 where
/// the load is not below the servers. By the recursion of Erlang's B: `B(0) = 1`, `B(k) = a B(k-1) / (k + a
/// B(k-1))`, `C = c B / (c - a (1 - B))`.
pub(crate) fn erlang_c(servers: f64, load: f64) -> f64 {
    if load.is_nan() || servers.is_nan() {
        return f64::NAN;
    }
    let servers = servers.clamp(0.0, SERVERS_MAX).floor();
    if load <= 0.0 {
        return 0.0;
    }
    if load >= servers {
        return 1.0;
    }
    let mut blocked = 1.0;
    let mut count = 1.0;
    while count <= servers {
        blocked = load * blocked / (count + load * blocked);
        count += 1.0;
    }
    servers * blocked / (servers - load * (1.0 - blocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, value: f64) {
        let found = parse(text).value(&|name| match name {
            "a" => 6.0,
            "b_1" => 2.0,
            _ => panic!("no symbol {name}"),
        });
        assert!((found - value).abs() < 1e-12, "{text} is {found}, not {value}");
    }

    #[test]
    fn formulas_follow_the_usual_order() {
        check("a + b_1 * 3", 12.0);
        check("(a + b_1) * 3", 24.0);
        check("a - b_1 - 1", 3.0);
        check("a / b_1 / 3", 1.0);
        check("min(a, b_1, 7) + max(a, 11/12)", 8.0);
        check("ceil(a / 4) + floor(a / 4)", 3.0);
        check("ceil(1.1 * 3 / 1.1)", 3.0);
    }

    #[test]
    fn symbols_are_replaced_by_their_figures() {
        let text = parse("a / (86400 * min(b, c))").with(&|name| format!("<{name}>"));
        assert_eq!(text, "<a> / (86400 x min(<b>, <c>))");
    }

    /// One server: C is the load. Two servers at load 1: 1/3 (any table of Erlang's C).
    #[test]
    fn waiting_follows_erlang() {
        assert!((erlang_c(1.0, 0.4) - 0.4).abs() < 1e-12);
        assert!((erlang_c(2.0, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!((erlang_c(10.0, 8.0) - 0.4092).abs() < 1e-4);
        assert!(erlang_c(4.0, 0.0) == 0.0 && erlang_c(4.0, 4.0) == 1.0 && erlang_c(0.0, 1.0) == 1.0);
        assert!(erlang_c(1e300, 1e5).is_finite() && erlang_c(f64::NAN, 1.0).is_nan());
    }
}
