//! Prints the tables of docs/reference/mechanics.md: paste them between its two marks after a change of data.

fn main() {
    print!("{}", mechanics::reference_tables());
}
