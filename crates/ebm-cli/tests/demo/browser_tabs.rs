//! The tabs of the toy and of ages in a real browser.

use serde_json::{Value, json};

use super::ages::{RUN, assert_same, predicted};
use super::browser::middle;
use super::chromium::Page;
use super::server::{Demo, numbers, photograph};
use super::toy::reproduced;

/// A number that the element of this id keeps in full.
fn kept(page: &mut Page, id: &str, key: &str) -> Value {
    page.value(&format!("JSON.parse(document.getElementById('{id}').dataset.{key} ?? 'null')"))
}

/// Goes from the first tab to the one that is so many to the right, by the keyboard.
fn turn_to(page: &mut Page, right: usize) {
    page.value("document.getElementById('tab-boxes').focus()");
    for _ in 0..right {
        page.presses("ArrowRight", 39);
    }
}

#[test]
fn a_toy_learns_and_its_numbers_are_those_of_reproduce() {
    let demo = Demo::start();
    let Some(mut page) = Page::open(&demo.address, [1280, 900]) else { return };
    turn_to(&mut page, 1);
    page.waits("document.getElementById('toy').dataset.epochs === '0'");
    page.waits("document.querySelectorAll('#toy-curve path').length === 3");
    page.value("{ const e = document.getElementById('toy-epochs'); e.value = 2; e.dispatchEvent(new Event('input')); }");
    let train = middle(&mut page, "#toy-train");
    page.clicks(train);
    page.waits("document.getElementById('toy').dataset.epochs === '2'");
    let [kl, loss] = reproduced();
    let own = [kept(&mut page, "toy", "kl").as_f64().unwrap(), numbers(&kept(&mut page, "toy", "losses"))[1]];
    assert!((own[0] - kl).abs() < 1e-6 && (own[1] - loss).abs() < 1e-6, "{own:?} {kl} {loss}");

    // The pointer moves x, and the curve follows.
    let at = middle(&mut page, "#toy-map");
    page.points([at[0] + 60.0, at[1]]);
    page.waits("Number(document.getElementById('toy-numbers').dataset.x) > 0");
    let x = kept(&mut page, "toy-numbers", "x");
    let curve = demo.asks("toy/curve", &json!({"training": 0, "x": x}), 200);
    for key in ["mean", "median"] {
        let own = kept(&mut page, "toy-numbers", key).as_f64().unwrap();
        assert!((own - curve[key].as_f64().unwrap()).abs() < 1e-6, "{own} {curve}");
    }
    // A click adds a point.
    page.clicks([at[0] + 60.0, at[1] - 20.0]);
    page.waits("document.getElementById('toy-status').textContent.startsWith('2001 points, 1 of your own')");

    // The same by the keyboard: from the tab to the map, x and the cross, a point, then the button.
    page.value("document.getElementById('tab-toy').focus()");
    for _ in 0..9 {
        page.presses("Tab", 9);
        if page.value("document.activeElement.id") == json!("toy-map") {
            break;
        }
    }
    let before = kept(&mut page, "toy-numbers", "x").as_f64().unwrap();
    page.presses("ArrowLeft", 37);
    page.presses("ArrowLeft", 37);
    page.presses("ArrowUp", 38);
    page.waits(&format!(
        "Math.abs(Number(document.getElementById('toy-numbers').dataset.x) - {before} + 0.2) < 0.011"
    ));
    page.presses("Enter", 13);
    page.waits("document.getElementById('toy-status').textContent.startsWith('2002 points, 2 of your own')");
    page.value("{ const e = document.getElementById('toy-epochs'); e.value = 3; e.dispatchEvent(new Event('input')); }");
    for _ in 0..9 {
        page.presses("Tab", 9);
        if page.value("document.activeElement.id") == json!("toy-train") {
            break;
        }
    }
    page.presses("Enter", 13);
    page.waits("document.getElementById('toy').dataset.epochs === '3'");
    page.shot("toy");
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn a_toy_of_ones_own_points_begins_with_the_first_one() {
    let demo = Demo::start();
    let Some(mut page) = Page::open(&demo.address, [800, 900]) else { return };
    turn_to(&mut page, 1);
    page.waits("document.getElementById('toy').dataset.epochs === '0'");
    page.value("{ const e = document.getElementById('toy-problem'); e.value = 'own'; e.dispatchEvent(new Event('change')); }");
    page.waits("document.getElementById('toy-status').textContent.startsWith('add points')");
    let at = middle(&mut page, "#toy-map");
    page.clicks(at);
    page.waits("document.getElementById('toy-status').textContent.startsWith('1 point')");
    let train = middle(&mut page, "#toy-train");
    page.clicks(train);
    page.waits("document.getElementById('toy').dataset.epochs === '75'");
    // Without a truth there is one curve and its region.
    page.waits("document.querySelectorAll('#toy-curve path').length === 2");
    assert_eq!(page.value("document.documentElement.scrollWidth <= 800"), json!(true));
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn an_age_has_a_density_that_follows_the_box() {
    let demo = Demo::with(&["--age", RUN]);
    let Some(mut page) = Page::open(&demo.address, [1280, 900]) else { return };
    turn_to(&mut page, 2);
    page.choose("#ages-file", &photograph());
    page.waits("document.getElementById('ages-numbers').dataset.bbox !== undefined");
    let matches = |page: &mut Page| {
        let bbox = numbers(&kept(page, "ages-numbers", "bbox"));
        let keys = ["prediction", "mean", "median", "modes", "region_90"];
        let found: Value =
            keys.iter().map(|key| (key.to_string(), kept(page, "ages-numbers", key))).collect();
        assert_same(&found, &predicted(&bbox));
        bbox
    };
    let first = matches(&mut page);
    let from = middle(&mut page, "#ages-picture .body");
    page.drags(from, [from[0] + 40.0, from[1] - 30.0]);
    let moved =
        format!("JSON.parse(document.getElementById('ages-numbers').dataset.bbox)[0] > {} + 20", first[0]);
    page.waits(&moved);
    page.waits(
        "document.querySelector('#ages-picture .body').getAttribute('x') === \
         String(JSON.parse(document.getElementById('ages-numbers').dataset.bbox)[0])",
    );
    let second = matches(&mut page);
    assert!(second[1] < first[1] && (second[2] - first[2]).abs() < 1e-9, "{first:?} {second:?}");
    // By the keyboard: to the box, then its right and lower edge.
    page.value("document.getElementById('ages-file').focus()");
    page.presses("Tab", 9);
    assert_eq!(
        page.value("document.activeElement === document.querySelector('#ages-picture .body')"),
        json!(true)
    );
    page.presses("ArrowLeft", 37);
    page.waits(&format!(
        "JSON.parse(document.getElementById('ages-numbers').dataset.bbox)[0] === {}",
        second[0] - 4.0
    ));
    matches(&mut page);
    page.shot("ages");
    assert_eq!(page.errors, Vec::<String>::new());
}
