//! The page in a real browser.

use serde_json::{Value, json};

use super::chromium::Page;
use super::server::{Demo, numbers, photograph, predicted};

/// What the page's list says of its boxes.
fn listed(page: &mut Page, key: &str) -> Vec<Vec<f64>> {
    let rows = format!(
        "[...document.querySelectorAll('#boxes-found tr')].map((row) => JSON.parse(row.dataset.{key}))"
    );
    page.value(&rows).as_array().unwrap().iter().map(numbers).collect()
}

/// The middle of the element that a selector finds, in the window.
pub fn middle(page: &mut Page, selector: &str) -> [f64; 2] {
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

/// Whether the list of boxes is that of the command line, before refinement and after.
fn lists(page: &mut Page, lines: &[Value]) {
    for (key, line_key) in [("bbox", "bbox"), ("before", "bbox_before")] {
        let rows = listed(page, key);
        assert_eq!(rows.len(), lines.len());
        for (row, line) in rows.iter().zip(lines) {
            let line = numbers(&line[line_key]);
            assert!(row.iter().zip(&line).all(|(a, b)| (a - b).abs() < 1e-6), "{row:?} {line:?}");
        }
    }
}

/// The place of the first person in the list, and the selector of its box.
fn person(lines: &[Value]) -> (usize, String) {
    let place = lines.iter().position(|line| line["label_name"] == "person").unwrap();
    (place, format!(".box:nth-of-type({})", place + 2))
}

#[test]
fn it_opens_on_a_photograph_with_boxes_before_and_after() {
    let demo = Demo::start();
    let Some(mut page) = opens(&demo, [1280, 900]) else { return };
    lists(&mut page, &predicted());
    let status = page.value("document.getElementById('boxes-status').textContent");
    assert!(status.as_str().unwrap().contains("CC BY 2.0: 3 objects in"), "{status}");
    let seen = "[...document.querySelectorAll('#boxes-picture .before')].filter((one) => one.getBoundingClientRect().width > 0).length";
    assert_eq!(page.value(seen), json!(2), "of two persons");
    let image = "(async () => { const one = new Image(); one.src = document.querySelector('#boxes-picture image').getAttribute('href'); \
                 await one.decode(); return [one.naturalWidth, one.naturalHeight]; })()";
    assert_eq!(page.value(image), json!([640, 428]));
    page.shot("first");
    assert_eq!(page.errors, Vec::<String>::new());
}

#[test]
fn a_photograph_a_drag_and_the_keyboard() {
    let demo = Demo::start();
    let Some(mut page) = opens(&demo, [1280, 900]) else { return };
    page.choose("#boxes-file", &photograph());
    page.waits("document.getElementById('boxes').dataset.density === '2'");
    page.waits(
        "document.getElementById('boxes-status').textContent.startsWith('000000343937.jpg: 3 objects')",
    );

    // The numbers on the page are those of the command line.
    let lines = predicted();
    lists(&mut page, &lines);

    // A box that is dragged climbs.
    let (place, selector) = person(&lines);
    let refined = listed(&mut page, "bbox")[place].clone();
    let from = middle(&mut page, &format!("{selector} .body"));
    page.drags(from, [from[0] + 25.0, from[1] - 12.0]);
    page.waits("document.getElementById('boxes').dataset.climbs === '1'");
    let dragged = listed(&mut page, "bbox")[place].clone();
    let start = numbers(&page.value(&format!(
        "['x', 'y', 'width', 'height'].map((key) => Number(document.querySelector('{selector} .start').getAttribute(key)))"
    )));
    assert!(start[0] > refined[0] + 5.0 && start[1] < refined[1], "{start:?} {refined:?}");
    assert!((dragged[0] - start[0]).abs() > 0.5, "{dragged:?} {start:?}");
    let points = page.value("document.querySelectorAll('#boxes-curve circle').length");
    let steps = page.value("Number(document.getElementById('boxes-steps').value)");
    assert_eq!(points, json!(steps.as_f64().unwrap() as u64 + 1));

    // Pointing at an edge tells its interval.
    page.waits("document.getElementById('boxes').dataset.density > 2");
    page.shot("boxes");
    let at = middle(&mut page, &format!("{selector} [data-edge=left]"));
    page.points(at);
    page.waits("document.getElementById('boxes-edge').textContent.startsWith('left edge of person')");
    assert_eq!(page.value("document.querySelectorAll('.interval').length > 0"), json!(true));

    // The same by the keyboard alone, from the file input on.
    page.value("document.getElementById('boxes-file').focus()");
    for _ in 0..20 {
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
    let climbed = listed(&mut page, "bbox")[place].clone();
    assert!((climbed[0] - refined[0] - 24.0).abs() > 1.0, "{climbed:?} {refined:?}");
    page.presses("Tab", 9);
    assert_eq!(page.value("document.activeElement.dataset.edge"), json!("left"));
    page.waits("document.getElementById('boxes-edge').textContent.startsWith('left edge of person')");

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
