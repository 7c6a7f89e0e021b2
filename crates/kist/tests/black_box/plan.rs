//! `kist plan durability`: a plan needs no server, only numbers that fit together.

use crate::harness::kist;

const PLAN: [&str; 2] = ["plan", "durability"];

#[test]
fn a_table_with_the_model_is_printed() {
    let ran = kist(&[&PLAN[..], &["--layout", "4+2", "--drives", "12", "--afr", "2%"]].concat()).exits(0);
    for words in ["rebuild of a drive:", "of the pool", "loss a year, drives alone", "nines of a byte"] {
        assert!(ran.out.contains(words), "'{words}' is not in:\n{}", ran.out);
    }
    assert!(ran.out.contains("\nModel\n") && ran.out.contains("\nAssumptions\n"), "{}", ran.out);
    assert!(!ran.out.contains("Simulation"), "{}", ran.out);
}

#[test]
fn json_has_the_annual_loss_probability_and_it_falls_with_parity() {
    let loss = |layout: &str| {
        let plan = kist(&[&PLAN[..], &["--layout", layout, "--drives", "84", "--json"]].concat());
        let plan = plan.exits(0).json();
        assert_eq!((plan["layout"].as_str(), plan["drives"].as_u64()), (Some(layout), Some(84)));
        assert!(plan["rebuild"]["hours"].as_f64().unwrap() > 0.0, "{plan}");
        assert!(plan["simulation"].is_null(), "{plan}");
        let loss = plan["pool"]["loss"].as_f64().unwrap();
        assert!(loss > 0.0 && loss <= 1.0 && plan["pool"]["nines"].as_f64().unwrap() >= 0.0, "{plan}");
        assert!(plan["pool"]["loss_drives"].as_f64().unwrap() <= loss, "{plan}");
        loss
    };
    let (none, two, four) = (loss("12+0"), loss("12+2"), loss("12+4"));
    assert!(none > two && two > four, "{none} {two} {four}");
    assert!(loss("12+2+2") < two, "local parities help, too");
}

#[test]
fn a_simulation_stands_beside_the_closed_form_and_repeats_itself() {
    let pool = ["--layout", "4+2", "--drives", "12", "--afr", "50%", "--window", "200h"];
    let arguments = [&PLAN[..], &pool, &["--simulate", "500", "--seed", "3"]].concat();
    let ran = kist(&arguments).exits(0);
    assert!(ran.out.contains("Simulation of 500 years, seed 3"), "{}", ran.out);
    assert_eq!(kist(&arguments).exits(0).out, ran.out);
    let plan = kist(&[&arguments[..], &["--json"]].concat()).exits(0).json();
    assert!(plan["simulation"]["failures"].as_u64().unwrap() > 0, "{plan}");
    assert!(plan["simulation"]["group_losses"]["closed_form"].as_f64().unwrap() > 0.0, "{plan}");
}

#[test]
fn numbers_that_cannot_be_are_refused_with_a_reason() {
    for (options, word) in [
        (&["--layout", "12"][..], "'12' is no layout"),
        (&["--layout", "250+6"], "is no layout"),
        (&["--drives", "15"], "needs 16 drives"),
        (&["--drives", "many"], "--drives"),
        (&["--afr", "often"], "'often' is no share"),
        (&["--afr=-1%"], "'-1%' is no share"),
        (&["--rebuild-share", "0"], "the rebuild share is 0"),
        (&["--drive-size", "20 apples"], "--drive-size"),
        (&["--bandwidth", "6"], "'6' is no size"),
        (&["--detect", "soon"], "--detect"),
        (&["--simulate=-5"], "the simulated time is -5"),
    ] {
        let ran = kist(&[&PLAN[..], options].concat()).exits(2).says(&[word]);
        assert!(ran.out.is_empty(), "{options:?} printed:\n{}", ran.out);
    }
    kist(&["plan"]).exits(2).says(&["durability"]);
}
