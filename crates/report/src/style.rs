//! How the page looks: on a screen in the light and in the dark, and on paper.
//!
//! Activities have fixed colours, after M. Okabe and K. Ito ("Color universal design", 2008), which people
//! with any
//! kind of colour vision tell apart; variants have those of P. Tol's bright scheme.

/// The style sheet.
pub const STYLE: &str = r#"
:root{--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--grid:#e8ebee;--panel:#fff;--tint:#f4f6f8;
--mount:#e69f00;--locate:#f0d43a;--read:#0072b2;--write:#009e73;--wait:#d55e00;--idle:#dde1e6;--down:#3b4048;
--client-read:#3a9bd6;--client-write:#b5568f;--bad:#b3261e;
--v0:#33608c;--v1:#e2574c;--v2:#228833;--v3:#b79b17;--v4:#4bb4d8;--v5:#9a3475;--v6:#8a8f97;--v7:#d98c00}
@media (prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ed;--soft:#9aa5b1;
--line:#39414a;--grid:#272d34;
--panel:#1a1e23;--tint:#20252b;--read:#3d9bd9;--write:#1fb58a;--idle:#323941;--down:#8d96a1;
--client-read:#7cc4ee;
--client-write:#d585b4;--bad:#ff8a80;--v0:#7fb0e0;--v1:#f08078;--v2:#5cc46e;--v3:#d8c04a;--v4:#7fd4f0;
--v5:#d070ac;--v6:#a9b0b8;--v7:#f0b040}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,
"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
main{max-width:1240px;margin:0 auto;padding:28px 24px 60px}
h1{font-size:28px;line-height:1.2;margin:0 0 6px;font-weight:650}
h2{font-size:19px;margin:38px 0 10px;padding-top:14px;border-top:1px solid var(--line);font-weight:650}
p{margin:0 0 10px;max-width:85ch}
.lead{color:var(--soft)}
.note{color:var(--soft);font-size:13px}
.result{margin:18px 0 4px;padding:14px 18px;background:var(--tint);border-left:4px solid var(--v0)}
.result p{margin:0 0 6px;font-size:16px;max-width:none}
.result p:last-child{margin:0}
.result.bad{border-color:var(--bad)}
.result.bad p:first-child{color:var(--bad);font-weight:600}
.grid{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:14px 26px}
.grid.three{grid-template-columns:repeat(3,minmax(0,1fr));gap:14px 20px}
.grid.one{grid-template-columns:minmax(0,1fr)}
figure{margin:0 0 10px;break-inside:avoid}
figcaption{font-weight:600;font-size:14px;margin:4px 0 3px}
figcaption small{color:var(--soft);font-weight:400;margin-left:10px;font-size:12.5px}
svg{display:block;width:100%;height:auto;font:12px system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,
sans-serif;overflow:visible}
svg text{fill:var(--ink)}
svg text.unit{fill:var(--soft);font-size:11.5px}
text.end{text-anchor:end}text.mid{text-anchor:middle}
text.value{font-weight:600}
path.area{fill-opacity:.13}rect.shade{fill:var(--soft);fill-opacity:.12}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:12px}
.tiles div{background:var(--tint);padding:12px 16px;break-inside:avoid}
.tiles b{display:block;font-size:23px;font-weight:650;line-height:1.25}
.tiles span{color:var(--soft);font-size:13px}
path.grid{stroke:var(--grid);fill:none;stroke-width:1}
path.axis{stroke:var(--soft);fill:none;stroke-width:1}
path.mark{stroke:var(--soft);fill:none;stroke-width:1;stroke-dasharray:3 4}
path.interval{stroke:var(--ink);fill:none;stroke-width:1.4}
path.line{fill:none;stroke-width:1.5;stroke-linejoin:round}
path.tail{stroke-width:4.5;stroke-linecap:round}
rect.tip{fill:transparent}rect.tip:hover{fill:var(--ink);fill-opacity:.07}
.legend{display:flex;flex-wrap:wrap;gap:3px 18px;font-size:13px;margin:2px 0 6px}
.legend span{display:inline-flex;align-items:center;gap:7px}
.legend i{flex:none;width:14px;height:10px;border-radius:2px}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:13.5px;min-width:60%}
th,td{padding:4px 14px 4px 0;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}
td,th.n{text-align:right;font-variant-numeric:tabular-nums;padding-left:14px}
tbody th{font-weight:400;color:var(--soft);white-space:nowrap}
tr.main th{color:var(--ink)}
thead th{border-bottom:1px solid var(--soft);max-width:30ch;vertical-align:bottom}
tr.group th{color:var(--ink);font-weight:650;padding-top:14px;white-space:normal}
td small{display:inline-block;min-width:5.5em;margin-left:6px;color:var(--soft)}
td small.yes{color:var(--ink);font-weight:700}
td.differs{font-weight:600}
details{margin:10px 0}summary{cursor:pointer;color:var(--soft)}
pre{background:var(--tint);padding:14px;font-size:12.5px;line-height:1.4;overflow-x:auto;white-space:pre-wrap}
li{max-width:85ch}
footer{margin-top:40px;color:var(--soft);font-size:12.5px}
@media (max-width:760px){.grid,.grid.three{grid-template-columns:minmax(0,1fr)}}
@page{size:A4 landscape;margin:11mm}
@media print{:root{--paper:#fff;--ink:#1b1f24;--soft:#59636e;--line:#d5dae0;--grid:#e8ebee;
--tint:#f4f6f8;--read:#0072b2;
--write:#009e73;--idle:#dde1e6;--down:#3b4048;--client-read:#3a9bd6;--client-write:#b5568f;--bad:#b3261e;
--v0:#33608c;--v1:#e2574c;--v2:#228833;--v3:#b79b17;--v4:#4bb4d8;--v5:#9a3475;--v6:#8a8f97;--v7:#d98c00}
body{font-size:11pt}main{padding:0;max-width:none}h2{break-after:avoid}table{font-size:9.5pt}
tr{break-inside:avoid}
h2{margin-top:20px}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"#;

/// Classes of fills, strokes and labels, one of each for every colour.
pub fn colours() -> String {
    let activities =
        ["mount", "locate", "read", "write", "wait", "idle", "down", "client-read", "client-write"];
    let variants: Vec<String> = (0..8).map(|variant| format!("v{variant}")).collect();
    let mut css = String::new();
    for name in activities.into_iter().chain(variants.iter().map(String::as_str)) {
        css += &format!(
            ".b-{name}{{fill:var(--{name});background:var(--{name})}}.s-{name}{{stroke:var(--{name})}}\n"
        );
    }
    css += "svg text.on-read,svg text.on-write,svg text.on-wait,svg text.on-down{fill:#fff}\n\
            svg text.on-mount,svg text.on-locate{fill:#1b1f24}\n";
    css
}
