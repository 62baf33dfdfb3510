//! Many small pictures with boxes and captions on one sheet.

use anyhow::Result;
use ebm_data::{Image, resize::resize_pillow};
use ebm_plot::{Label, label_width, labelled};

use crate::picture::{Colour, outline, paste};

const PAGE: Colour = [34, 34, 34];
const INK: Colour = [235, 235, 235];
const DARK: Colour = [0, 0, 0];
/// Room for the picture of a tile.
const WIDTH: usize = 400;
const HEIGHT: usize = 300;
const GAP: usize = 12;
/// Height of the two lines below a picture.
const CAPTION: usize = 42;
const EM: f64 = 14.0;
pub const SMALL_EM: f64 = 12.0;
/// Height of a line of the legend.
const LINE: usize = 26;
const MAX_COLUMNS: usize = 5;

/// A box in the pixels of its picture.
pub struct Mark {
    /// Left, top, width, height.
    pub bbox: [f64; 4],
    pub colour: Colour,
    /// Of the line, in pixels of what is drawn.
    pub thickness: usize,
    /// Written at the box's upper left corner, if the box has some room for it.
    pub text: String,
}

/// A picture, what is drawn over it, and two lines below it, the second smaller.
pub struct Tile {
    pub image: Image,
    pub marks: Vec<Mark>,
    pub caption: [String; 2],
}

/// The tiles in reading order, on a dark page below a legend.
pub fn contact_sheet(tiles: &[Tile], legend: &[(Colour, &str)]) -> Result<Image> {
    let columns = ((tiles.len() as f64).sqrt().ceil() as usize).clamp(1, MAX_COLUMNS);
    let rows = tiles.len().div_ceil(columns);
    let width = columns * (WIDTH + GAP) + GAP;
    let Legend { keys, mut labels, height: top } = Legend::new(legend, width)?;
    let mut sheet = Image::filled(width, top + rows * (HEIGHT + CAPTION + GAP), PAGE)?;
    for ((left, top), colour) in keys {
        paste(&mut sheet, &Image::filled(KEY, KEY, colour)?, left, top);
    }
    for (index, tile) in tiles.iter().enumerate() {
        let left = GAP + index % columns * (WIDTH + GAP);
        let top = top + index / columns * (HEIGHT + CAPTION + GAP);
        let (picture, texts) = draw(tile)?;
        // Centred above its caption.
        let (x, y) = (left + (WIDTH - picture.width) / 2, top + HEIGHT - picture.height);
        paste(&mut sheet, &picture, x, y);
        let at = |right: i32, down: i32| (x as i32 + right, y as i32 + down);
        labels.extend(
            texts
                .into_iter()
                .map(|label| Label { position: at(label.position.0, label.position.1), ..label }),
        );
        for ((line, text), em) in tile.caption.iter().enumerate().zip([EM, SMALL_EM]) {
            let position = (left as i32, (top + HEIGHT + 4 + line * 18) as i32);
            labels.push(Label { text: shorten(text, em, WIDTH)?, position, em, colour: INK, ground: None });
        }
    }
    Ok(labelled(sheet, &labels)?)
}

/// Side of a coloured square of the legend.
const KEY: usize = 14;

/// What the colours mean.
struct Legend {
    /// Upper left corners of coloured squares.
    keys: Vec<((usize, usize), Colour)>,
    labels: Vec<Label>,
    height: usize,
}

impl Legend {
    /// In as many lines as it needs.
    fn new(entries: &[(Colour, &str)], width: usize) -> Result<Self> {
        let (mut keys, mut labels) = (Vec::new(), Vec::new());
        let (mut x, mut y) = (GAP, GAP);
        for &(colour, text) in entries {
            let entry = KEY + 6 + label_width(text, EM)?.ceil() as usize + 2 * GAP;
            if x > GAP && x + entry > width {
                (x, y) = (GAP, y + LINE);
            }
            keys.push(((x, y), colour));
            let position = ((x + KEY + 6) as i32, y as i32);
            labels.push(Label { text: text.to_owned(), position, em: EM, colour: INK, ground: None });
            x += entry;
        }
        Ok(Self { keys, labels, height: y + LINE + GAP })
    }
}

/// The tile's picture at its size on the sheet with its boxes, and their texts in its pixels.
fn draw(tile: &Tile) -> Result<(Image, Vec<Label>)> {
    let (width, height) = (tile.image.width as f64, tile.image.height as f64);
    let scale = (WIDTH as f64 / width).min(HEIGHT as f64 / height);
    let side = |length: f64, room: usize| ((length * scale).round() as usize).clamp(1, room);
    let mut picture = resize_pillow(&tile.image, side(width, WIDTH), side(height, HEIGHT));
    let labels = draw_marks(&mut picture, scale, SMALL_EM, &tile.marks)?;
    Ok((picture, labels))
}

/// `picture` with boxes that are `scale` times as large in it as their marks say, with texts of this em, and a
/// line of text in its lower left corner.
pub fn with_marks(mut picture: Image, scale: f64, em: f64, marks: &[Mark], foot: &str) -> Result<Image> {
    let mut labels = draw_marks(&mut picture, scale, em, marks)?;
    let text = shorten(foot, em, picture.width.saturating_sub(em as usize))?;
    let (x, y) = ((em / 2.0) as i32, picture.height as i32 - (1.5 * em) as i32);
    labels.extend((!text.is_empty()).then(|| grounded(text, x, y, em, DARK)));
    Ok(labelled(picture, &labels)?)
}

/// A text that can be read on any picture, since it stands on a ground of its own.
fn grounded(text: String, x: i32, y: i32, em: f64, ground: Colour) -> Label {
    let [red, green, blue] = ground.map(f64::from);
    let is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 120.0;
    Label { text, position: (x, y), em, colour: if is_light { DARK } else { INK }, ground: Some(ground) }
}

/// Draws the boxes, which are `scale` times as large in the picture; their texts in its pixels.
fn draw_marks(picture: &mut Image, scale: f64, em: f64, marks: &[Mark]) -> Result<Vec<Label>> {
    let mut labels = Vec::new();
    for mark in marks {
        let bbox = mark.bbox.map(|value| value * scale);
        outline(picture, bbox, mark.colour, mark.thickness);
        let text = shorten(&mark.text, em, picture.width.saturating_sub(4))?;
        let wide = label_width(&text, em)?.ceil() as usize;
        // Where many small objects stand close together, their texts would hide them and one another.
        if text.is_empty() || bbox[2] < wide as f64 / 2.0 || bbox[3] < em {
            continue;
        }
        // Inside the picture, whatever the box.
        let most = |length: usize, own: usize| length.saturating_sub(own + 2) as f64;
        let x = (bbox[0] + em / 3.0).clamp(0.0, most(picture.width, wide)) as i32;
        let y = (bbox[1] + em / 4.0).clamp(0.0, most(picture.height, em as usize + 2)) as i32;
        labels.push(grounded(text, x, y, em, mark.colour));
    }
    Ok(labels)
}

/// As much of `text` as fits into `room` pixels.
fn shorten(text: &str, em: f64, room: usize) -> Result<String> {
    if label_width(text, em)? <= room as f64 {
        return Ok(text.to_owned());
    }
    let mut kept: Vec<char> = text.chars().collect();
    while kept.pop().is_some() {
        let shorter: String = kept.iter().chain(&['…']).collect();
        if label_width(&shorter, em)? <= room as f64 {
            return Ok(shorter);
        }
    }
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Colour = [200, 0, 0];

    fn tile(width: usize, height: usize) -> Tile {
        let mark = Mark { bbox: [0.0, 0.0, 10.0, 10.0], colour: RED, thickness: 2, text: String::new() };
        Tile {
            image: Image::filled(width, height, [90; 3]).unwrap(),
            marks: vec![mark],
            caption: ["name".into(), String::new()],
        }
    }

    fn pixel(image: &Image, x: usize, y: usize) -> [u8; 3] {
        <[u8; 3]>::try_from(&image.pixels[3 * (y * image.width + x)..][..3]).unwrap()
    }

    #[test]
    fn tiles_stand_in_reading_order_at_one_scale_each() {
        let legend = [(RED, "wrong")];
        let sheet = contact_sheet(&[tile(40, 30), tile(10, 30), tile(40, 10)], &legend).unwrap();
        let top = GAP + LINE + GAP;
        assert_eq!(
            (sheet.width, sheet.height),
            (2 * (WIDTH + GAP) + GAP, top + 2 * (HEIGHT + CAPTION + GAP))
        );
        assert_eq!([pixel(&sheet, GAP, GAP), pixel(&sheet, 0, 0)], [RED, PAGE]);
        // The first fills its room, at ten times its size.
        assert_eq!(pixel(&sheet, GAP, top), RED);
        assert_eq!(pixel(&sheet, GAP + 99, top + 50), RED);
        assert_eq!(pixel(&sheet, GAP + 100, top + 50), [90; 3]);
        assert_eq!(pixel(&sheet, GAP + WIDTH - 1, top + HEIGHT - 1), [90; 3]);
        // The second is narrow and centred, the third low and at the bottom.
        let second = GAP + WIDTH + GAP;
        assert_eq!([pixel(&sheet, second + 149, top), pixel(&sheet, second + 150, top)], [PAGE, RED]);
        let third = top + HEIGHT + CAPTION + GAP;
        assert_eq!([pixel(&sheet, GAP, third + 199), pixel(&sheet, GAP, third + 200)], [PAGE, RED]);
    }

    #[test]
    fn long_texts_are_cut_and_short_ones_are_not() {
        assert_eq!(shorten("short", EM, WIDTH).unwrap(), "short");
        let cut = shorten(&"long".repeat(50), EM, 100).unwrap();
        assert!(cut.ends_with('…') && label_width(&cut, EM).unwrap() <= 100.0, "{cut}");
        assert_eq!(shorten("long", EM, 1).unwrap(), "");
        // A text at the edge of a tiny picture does not fail.
        let mut tiny = tile(1, 300);
        tiny.marks[0].text = "category 0.95".into();
        assert!(contact_sheet(&[tiny], &[]).is_ok());
    }

    #[test]
    fn a_text_needs_half_its_width() {
        let texts = |width: f64, text: &str| {
            let mut tile = tile(WIDTH, HEIGHT);
            tile.marks[0].bbox = [0.0, 0.0, width, 40.0];
            tile.marks[0].text = text.into();
            draw(&tile).unwrap().1.len()
        };
        let half = label_width("category", SMALL_EM).unwrap() / 2.0;
        assert_eq!(
            [texts(half + 1.0, "category"), texts(half - 1.0, "category"), texts(90.0, "")],
            [1, 0, 0]
        );
    }

    #[test]
    fn texts_differ_from_their_ground_whatever_the_picture() {
        for picture in [[0; 3], [255; 3], [60, 230, 90]] {
            for colour in [[60, 230, 90], [235, 85, 10], [40, 30, 60]] {
                let image = Image::filled(200, 100, picture).unwrap();
                let bbox = [20.0, 20.0, 150.0, 60.0];
                let mark = Mark { bbox, colour, thickness: 2, text: "MMMMMM".into() };
                let drawn = with_marks(image, 1.0, EM, &[mark], "").unwrap();
                let row: Vec<_> = (26..90).map(|x| pixel(&drawn, x, 30)).collect();
                let light = |[red, green, blue]: Colour| {
                    0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue)
                };
                let apart = row.iter().map(|&one| (light(one) - light(colour)).abs()).fold(0.0, f64::max);
                assert!(row.contains(&colour) && apart > 80.0, "{picture:?} {colour:?} {apart}");
            }
        }
    }
}
