//! Scenes in memory: what their objects and pixels are like.

use ebm_data::Error;
use ebm_seed::Key;
use ebm_synth::scenes::{Category, Difficulty, SceneConfig, SceneObject, render_scene};
use proptest::prelude::*;

fn objects(config: &SceneConfig, scenes: u64) -> Vec<SceneObject> {
    (0..scenes).flat_map(|index| render_scene(config, Key::new(11).index(index)).unwrap().1).collect()
}

fn fraction(objects: &[SceneObject], test: impl Fn(&SceneObject) -> bool) -> f32 {
    objects.iter().filter(|object| test(object)).count() as f32 / objects.len() as f32
}

#[test]
fn a_key_fixes_every_pixel() {
    let config = SceneConfig::preset(Difficulty::Hard);
    let scene = render_scene(&config, Key::new(1).index(4)).unwrap();
    assert_eq!(scene, render_scene(&config, Key::new(1).index(4)).unwrap());
    assert_ne!(scene.0, render_scene(&config, Key::new(1).index(5)).unwrap().0);
    assert_ne!(scene.0, render_scene(&config, Key::new(2).index(4)).unwrap().0);
}

#[test]
fn categories_are_balanced() {
    let config = SceneConfig::default();
    let objects = objects(&config, 100);
    for category in Category::ALL {
        let share = fraction(&objects, |object| object.category == category);
        assert!((share - 1.0 / 6.0).abs() < 0.05, "{category:?} has a share of {share}");
    }
    assert!(objects.iter().all(|object| config.category(object.category_id) == Some(object.category)));
}

#[test]
fn harder_scenes_have_more_uncertain_edges() {
    let uncertain = |difficulty| {
        let objects = objects(&SceneConfig::preset(difficulty), 40);
        fraction(&objects, |o| {
            o.occlusion > 0.1
                || o.blur > 1.0
                || o.fading_side
                || o.truncation > 0.01
                || o.thin_part.is_some_and(|opacity| opacity < 0.5)
        })
    };
    let [easy, normal, hard] = [Difficulty::Easy, Difficulty::Normal, Difficulty::Hard].map(uncertain);
    assert!(easy < 0.35 && 0.5 < normal && normal < 0.9 && hard > normal, "{easy} {normal} {hard}");
}

#[test]
fn occlusion_is_common_and_bounded() {
    let config = SceneConfig::default();
    let objects = objects(&config, 100);
    assert!(fraction(&objects, |object| object.occlusion > 0.1) > 0.2);
    assert!(fraction(&objects, |object| object.occlusion == 0.0) > 0.2);
    assert!(objects.iter().all(|object| object.occlusion <= config.max_occlusion + 1e-3));
    assert!(fraction(&objects, |object| object.truncation > 0.01) > 0.05);
}

#[test]
fn without_degradation_nothing_is_hidden_or_soft() {
    let config = SceneConfig {
        max_occlusion: 0.0,
        occluders: 0,
        blur: 0.0,
        faint: 0.0,
        truncation: 0.0,
        ..SceneConfig::default()
    };
    for object in objects(&config, 20) {
        assert!(object.occlusion < 1e-5 && object.blur == 0.0 && !object.fading_side, "{object:?}");
        assert!(
            object.truncation == 0.0 && object.thin_part.is_none_or(|opacity| opacity == 1.0),
            "{object:?}"
        );
    }
}

#[test]
fn a_calm_scene_shows_its_object_where_the_box_is() {
    // One disc, no clutter, noise or blur: the colour changes at the four ends of its box and hardly beyond
    // them.
    let config = SceneConfig {
        objects: 1..=1,
        size: 30.0..=60.0,
        clutter: 0.0,
        occluders: 0,
        blur: 0.0,
        faint: 0.0,
        truncation: 0.0,
        noise: 0.0,
        categories: vec![Category::Disc],
        ..SceneConfig::default()
    };
    let mut standing_out = 0;
    for index in 0..20 {
        let (image, objects) = render_scene(&config, Key::new(3).index(index)).unwrap();
        let [x, y, w, h] = objects[0].bbox;
        // The change across a point along a direction, over three pixels.
        let jump = |u: f32, v: f32, (du, dv): (f32, f32)| -> i32 {
            let at = |t: f32| {
                let column = ((u + t * du).max(0.0) as usize).min(image.width - 1);
                let row = ((v + t * dv).max(0.0) as usize).min(image.height - 1);
                let start = 3 * (row * image.width + column);
                &image.pixels[start..start + 3]
            };
            at(-1.5).iter().zip(at(1.5)).map(|(&a, &b)| (i32::from(a) - i32::from(b)).abs()).sum()
        };
        let (cx, cy) = (x + 0.5 * w, y + 0.5 * h);
        let edge = jump(x, cy, (1.0, 0.0)) + jump(x + w, cy, (1.0, 0.0));
        let outside = jump(x - 6.0, cy, (1.0, 0.0)) + jump(x + w + 6.0, cy, (1.0, 0.0));
        let vertical = jump(cx, y, (0.0, 1.0)) + jump(cx, y + h, (0.0, 1.0));
        standing_out += usize::from(edge + vertical > 2 * outside);
    }
    assert!(standing_out >= 17, "{standing_out} of 20 discs stand out at their box");
}

#[test]
fn invalid_configurations_are_refused_by_name() {
    let base = SceneConfig::default;
    let cases = [
        ("width", SceneConfig { width: 8, ..base() }),
        ("height", SceneConfig { height: 100_000, ..base() }),
        ("objects", SceneConfig { objects: 0..=3, ..base() }),
        ("objects", SceneConfig { objects: std::ops::RangeInclusive::new(5, 3), ..base() }),
        ("categories", SceneConfig { categories: vec![], ..base() }),
        ("categories", SceneConfig { categories: vec![Category::Mug, Category::Mug], ..base() }),
        ("size", SceneConfig { size: 2.0..=40.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=20.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=140.0, ..base() }),
        ("size", SceneConfig { size: 40.0..=f32::NAN, ..base() }),
        ("occlusion", SceneConfig { occlusion: 1.5, ..base() }),
        ("max_occlusion", SceneConfig { max_occlusion: 0.95, ..base() }),
        ("occluders", SceneConfig { occluders: 1000, ..base() }),
        ("clutter", SceneConfig { clutter: -0.1, ..base() }),
        ("blur", SceneConfig { blur: f32::INFINITY, ..base() }),
        ("faint", SceneConfig { faint: f32::NAN, ..base() }),
        ("truncation", SceneConfig { truncation: 2.0, ..base() }),
        ("noise", SceneConfig { noise: -1.0, ..base() }),
        ("jpeg_quality", SceneConfig { jpeg_quality: 0, ..base() }),
    ];
    for (field, config) in cases {
        match render_scene(&config, Key::new(0)) {
            Err(Error::Argument { name, .. }) => assert_eq!(name, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    for difficulty in [Difficulty::Easy, Difficulty::Normal, Difficulty::Hard] {
        SceneConfig::preset(difficulty).validate().unwrap();
    }
}

#[test]
fn a_configuration_reads_and_writes_and_refuses_unknown_keys() {
    let hard = SceneConfig::preset(Difficulty::Hard);
    let text = serde_json::to_string(&hard).unwrap();
    assert_eq!(serde_json::from_str::<SceneConfig>(&text).unwrap(), hard);
    let partial: SceneConfig = serde_json::from_str(r#"{"blur": 0.0, "categories": ["mug"]}"#).unwrap();
    assert_eq!(partial, SceneConfig { blur: 0.0, categories: vec![Category::Mug], ..SceneConfig::default() });
    let error = serde_json::from_str::<SceneConfig>(r#"{"blurr": 0.0}"#).unwrap_err();
    assert!(error.to_string().contains("blurr"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn boxes_lie_inside_the_image(seed in any::<u64>(), width in 40usize..200, height in 40usize..200, clutter in 0f32..=1.0) {
        let config = SceneConfig {
            width,
            height,
            clutter,
            size: 10.0..=24.0,
            truncation: 0.5,
            ..SceneConfig::preset(Difficulty::Hard)
        };
        let (image, objects) = render_scene(&config, Key::new(seed)).unwrap();
        prop_assert_eq!(image.pixels.len(), 3 * width * height);
        prop_assert!(objects.len() <= 11);
        for object in objects {
            let [x, y, w, h] = object.bbox;
            prop_assert!(x >= 0.0 && y >= 0.0 && w >= 5.9 && h >= 5.9, "{:?}", object);
            prop_assert!(x + w <= width as f32 + 1e-3 && y + h <= height as f32 + 1e-3, "{:?}", object);
            prop_assert!(object.area > 0.0 && object.area <= 1.01 * w * h, "{:?}", object);
        }
    }
}
