//! The page in a real browser.

use serde_json::{Value, json};

use super::ages::{RUN, assert_same, predicted as age};
use super::chromium::Page;
use super::server::{Demo, numbers, photograph, predicted};

/// The boxes on the page in numbers: before refinement, or as they are.
fn boxes(page: &mut Page, key: &str) -> Vec<Vec<f64>> {
    let found = "[...document.querySelectorAll('#boxes .box')].map((one) => JSON.parse(one.dataset.found))";
    let found = page.value(found);
    found.as_array().unwrap().iter().map(|one| numbers(&one[key])).collect()
}

/// The middle of the element that a selector finds, in the window.
fn middle(page: &mut Page, selector: &str) -> [f64; 2] {
    let found = format!(
        "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'nearest'}}); \
         const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
    );
    let at = numbers(&page.value(&found));
    [at[0], at[1]]
}

/// Waits for the photograph that the page opens on.
fn opens(demo: &Demo, size: [u32; 2]) -> Option<Page> {
    let mut page = Page::open(&demo.address, size)?;
    page.waits("document.getElementById('boxes').dataset.density === '1'");
    Some(page)
}

#[test]
fn it_opens_on_boxes_that_climb_after_a_drag_and_after_keys() {
    let demo = Demo::start();
    let Some(mut page) = opens(&demo, [1280, 900]) else { return };
    let lines = predicted();
    for (key, line_key) in [("bbox", "bbox"), ("before", "bbox_before")] {
        let found = boxes(&mut page, key);
        assert_eq!(found.len(), lines.len());
        for (own, line) in found.iter().zip(&lines) {
            let line = numbers(&line[line_key]);
            assert!(own.iter().zip(&line).all(|(a, b)| (a - b).abs() < 1e-6), "{own:?} {line:?}");
        }
    }
    let status = page.value("document.getElementById('boxes-status').textContent");
    let said = format!("CC BY 2.0: {} objects in", lines.len());
    assert!(status.as_str().unwrap().contains(&said), "{status}");
    let seen = "[...document.querySelectorAll('#boxes .box .before')].filter((one) => one.getBoundingClientRect().width > 0).length";
    let persons = lines.iter().filter(|line| line["label_name"] == "person").count();
    assert_eq!(page.value(seen), json!(persons));
    page.shot("first");

    let place = lines.iter().position(|line| line["label_name"] == "person").unwrap();
    let refined = boxes(&mut page, "bbox")[place].clone();
    let selector = format!("#boxes .box:nth-of-type({})", place + 2);
    let from = middle(&mut page, &format!("{selector} .body"));
    page.drags(from, [from[0] + 25.0, from[1] - 12.0]);
    page.waits("document.getElementById('boxes').dataset.climbs === '1'");
    let climbed = boxes(&mut page, "bbox")[place].clone();
    let start = numbers(&page.value(&format!(
        "['x', 'y', 'width', 'height'].map((key) => Number(document.querySelector('{selector} .start').getAttribute(key)))"
    )));
    assert!(start[0] > refined[0] + 5.0 && start[1] < refined[1], "{start:?} {refined:?}");
    assert!((climbed[0] - start[0]).abs() > 0.5, "{climbed:?} {start:?}");
    assert_eq!(page.value("document.querySelectorAll('#boxes-curve circle').length > 5"), json!(true));
    page.waits("document.querySelector('#boxes-heat image') !== null");
    page.shot("boxes");
    let edge = middle(&mut page, &format!("{selector} [data-edge=left]"));
    page.points(edge);
    page.waits("document.getElementById('boxes-edge').textContent.startsWith('left edge of person')");
    // A band is shown where it is reliable.
    let is_reliable =
        page.value("document.getElementById('boxes-edge').textContent.includes('with probability 0.9')");
    assert_eq!(page.value("document.querySelectorAll('#boxes-band .interval').length > 0"), is_reliable);

    // The same by the keyboard: to the box, back to where it was found, and away from there.
    page.value("document.getElementById('boxes-file').focus()");
    for _ in 0..lines.len() + 1 {
        page.presses("Tab", 9);
        let body = format!("document.activeElement === document.querySelector('{selector} .body')");
        if page.value(&body) == json!(true) {
            break;
        }
    }
    page.presses("Escape", 27);
    for _ in 0..6 {
        page.presses("ArrowRight", 39);
    }
    page.presses("Enter", 13);
    page.waits("document.getElementById('boxes').dataset.climbs === '2'");
    let climbed = boxes(&mut page, "bbox")[place].clone();
    assert!((climbed[0] - refined[0] - 24.0).abs() > 1.0, "{climbed:?} {refined:?}");
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn a_name_with_html_stays_text_and_what_is_no_image_is_said() {
    let demo = Demo::start();
    let Some(mut page) = opens(&demo, [800, 900]) else { return };
    let place = tempfile::tempdir().unwrap();
    let name = "<img src=x onerror=alert(1)>.jpg";
    let file = place.path().join(name);
    std::fs::copy(photograph(), &file).unwrap();
    page.choose("#boxes-file", &file);
    page.waits(&format!(
        "document.getElementById('boxes-status').textContent.startsWith('{name}: 3 objects in')"
    ));
    assert_eq!(page.value("document.querySelectorAll('img').length"), json!(0));
    assert_eq!(page.errors, Vec::<String>::new());

    // Its server refuses a file, and that is a sentence on the page; the browser logs the status.
    let cut = place.path().join("cut.jpg");
    std::fs::write(&cut, &std::fs::read(photograph()).unwrap()[..9000]).unwrap();
    page.choose("#boxes-file", &cut);
    page.waits("document.getElementById('boxes-status').classList.contains('error')");
    let status = page.value("document.getElementById('boxes-status').textContent");
    assert!(status.as_str().unwrap().contains("cut.jpg"), "{status}");
    assert!(page.errors.iter().all(|error| error.contains("422")), "{:?}", page.errors);
    // At 800 pixels nothing is cut off.
    assert_eq!(page.value("document.documentElement.scrollWidth <= 800"), json!(true));
}

#[test]
fn a_toy_learns_points_of_ones_own_and_a_face_has_an_age() {
    let demo = Demo::with(&["--age", RUN]);
    let Some(mut page) = Page::open(&demo.address, [1280, 900]) else { return };
    let numbers_of = |page: &mut Page, id: &str| -> Value {
        page.value(&format!("JSON.parse(document.getElementById('{id}').dataset.numbers ?? 'null')"))
    };
    let says = |said: &str| format!("document.getElementById('toy-status').textContent.startsWith('{said}')");
    page.value("document.getElementById('tab-toy').click()");
    page.waits(&says("2000 points, an untrained network"));
    page.waits("document.querySelectorAll('#toy-curve path').length === 3");
    let map = middle(&mut page, "#toy-map");
    page.points([map[0] + 60.0, map[1]]);
    page.waits("JSON.parse(document.getElementById('toy-numbers').dataset.numbers).x > 0");
    page.shot("toy");
    let kept = numbers_of(&mut page, "toy-numbers");
    let curve = demo.asks("toy/curve", &json!({"training": 0, "x": kept["x"]}), 200);
    assert_eq!((&kept["mean"], &kept["median"]), (&curve["mean"], &curve["median"]));
    page.clicks([map[0] + 60.0, map[1] - 20.0]);
    page.waits(&says("2001 points, 1 of your own"));
    page.value("{ const e = document.getElementById('toy-problem'); e.value = 'own'; e.dispatchEvent(new Event('change')); }");
    page.waits(&says("1 points, an untrained network"));
    page.value("document.getElementById('toy-train').click()");
    page.waits("JSON.parse(document.getElementById('toy').dataset.state).losses.length === 75");
    // Without a truth there is one curve and its region.
    page.waits("document.querySelectorAll('#toy-curve path').length === 2");

    page.value("document.getElementById('tab-ages').click()");
    page.choose("#ages-file", &photograph());
    page.waits("document.getElementById('ages-numbers').dataset.numbers !== undefined");
    let first = numbers_of(&mut page, "ages-numbers");
    assert_same(&first, &age(&numbers(&first["bbox"])));
    let from = middle(&mut page, "#ages-picture .body");
    page.drags(from, [from[0] + 40.0, from[1] - 30.0]);
    page.waits(&format!(
        "(() => {{ const [x] = JSON.parse(document.getElementById('ages-numbers').dataset.numbers).bbox; \
         return x > {} + 20 && document.querySelector('#ages-picture .body').getAttribute('x') === String(x); }})()",
        first["bbox"][0]
    ));
    let second = numbers_of(&mut page, "ages-numbers");
    let [a, b] = [&first, &second].map(|found| numbers(&found["bbox"]));
    assert!(b[0] > a[0] + 20.0 && b[1] < a[1] && (b[2] - a[2]).abs() < 1e-9, "{a:?} {b:?}");
    assert_same(&second, &age(&b));
    page.shot("ages");
    assert_eq!(page.errors, Vec::<String>::new());
}
