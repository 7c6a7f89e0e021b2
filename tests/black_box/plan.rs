//! `kist plan`: a plan needs no server, only numbers that fit together.

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

const MECHANICS: [&str; 2] = ["plan", "mechanics"];

#[test]
fn models_of_drives_are_listed_with_their_sources() {
    let listed = kist(&MECHANICS).exits(0);
    for name in ["LTO-5", "LTO-10-P", "TS1170", "T10000D", "SL8500"] {
        assert!(listed.out.contains(name), "{name} is not in:\n{}", listed.out);
    }
    let one = kist(&[&MECHANICS[..], &["lto9"]].concat()).exits(0);
    for words in
        ["drive LTO-9: ", "medium LTO-9: ", "locates lto", "IBM TS4500 documentation", "recommends_order"]
    {
        assert!(one.out.contains(words), "'{words}' is not in:\n{}", one.out);
    }
    let json = kist(&[&MECHANICS[..], &["L8", "--json"]].concat()).exits(0).json();
    let figures = json["models"][0]["figures"].as_array().unwrap().clone();
    let wraps = figures.iter().find(|figure| figure["name"] == "wraps").unwrap();
    assert_eq!((wraps["value"].as_f64(), wraps["verified"].as_bool()), (Some(208.0), Some(true)), "{wraps}");
    kist(&[&MECHANICS[..], &["LTO-99"]].concat()).exits(2);
}

#[test]
fn a_data_file_of_the_site_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.toml");
    let robot = "[sources]\nus = \"Measured here\"\n[[robot]]\nname = \"ours\"\ntitle = \"Our library\"\n\
                 robots = { value = 2, unit = \"robots\", source = \"us\", verified = true }\n\
                 move = { value = 9, unit = \"s\", source = \"us\", verified = true }\n";
    std::fs::write(&path, robot).unwrap();
    let shown = |exit| kist(&[&MECHANICS[..], &["--file", path.to_str().unwrap()]].concat()).exits(exit);
    assert!(shown(0).out.contains("library ours: Our library"));
    std::fs::write(&path, robot.replace("value = 9", "value = 0")).unwrap();
    let refused = shown(2);
    assert!(refused.err.contains("ours: move: 0 is not possible"), "{}", refused.err);
}
