//! Draws boxes and texts into pictures, and arranges many pictures on one sheet.

use anyhow::Result;
use ebm_data::{Image, resize::resize_pillow};
use ebm_plot::{Label, label_width, labelled};

use crate::picture::{Canvas, Colour, grid, paste};

const PAGE: Colour = [34, 34, 34];
const INK: Colour = [235, 235, 235];
const DARK: Colour = [0, 0, 0];
/// Largest width and height of a tile's picture, in pixels.
const WIDTH: usize = 400;
const HEIGHT: usize = 300;
/// Height of a line of text, in pixels.
const LINE: usize = 20;
pub const EM: f64 = 12.0;
const COLUMNS: usize = 4;

/// Box in the pixels of its image.
pub struct Mark {
    /// `[left, top, width, height]`.
    pub bbox: [f64; 4],
    pub colour: Colour,
    /// Thickness of the outline, in pixels of the drawn picture.
    pub thickness: usize,
    /// Text at the box's upper left corner, left out where the box is too small for it.
    pub text: String,
}

/// Picture with the boxes drawn over it and two lines of text below it.
pub struct Tile {
    pub canvas: Canvas,
    pub marks: Vec<Mark>,
    pub caption: [String; 2],
}

/// Arranges the tiles in reading order on a dark page below a legend.
pub fn contact_sheet(tiles: Vec<Tile>, legend: &[(Colour, &str)]) -> Result<Image> {
    let (mut x, mut labels) = (LINE / 2, Vec::new());
    for &(colour, text) in legend {
        labels.push(grounded(text.to_owned(), x as i32, 2, EM, colour));
        x += label_width(text, EM)?.ceil() as usize + LINE;
    }
    let mut rows = vec![vec![labelled(Image::filled(x, LINE, PAGE)?, &labels)?]];
    let tiles = tiles.into_iter().map(draw).collect::<Result<Vec<_>>>()?;
    rows.extend(tiles.chunks(COLUMNS).map(<[Image]>::to_vec));
    Ok(grid(&rows, PAGE)?)
}

/// Draws a tile: its picture, as large as fits, above its caption.
fn draw(Tile { canvas, marks, caption }: Tile) -> Result<Image> {
    let image = &canvas.image;
    let [width, height] = [image.width, image.height].map(|side| side as f64);
    let scale = (WIDTH as f64 / width).min(HEIGHT as f64 / height);
    let side = |length: f64, room: usize| ((length * scale).round() as usize).clamp(1, room);
    let image = resize_pillow(image, side(width, WIDTH), side(height, HEIGHT));
    let picture = with_marks(Canvas { image, scale, ..canvas }, EM, &marks, "")?;
    let mut tile = Image::filled(WIDTH, HEIGHT + 2 * LINE, PAGE)?;
    paste(&mut tile, &picture, (WIDTH - picture.width) / 2, HEIGHT - picture.height);
    let mut labels = Vec::new();
    for (line, text) in caption.iter().enumerate() {
        let position = (0, (HEIGHT + 2 + line * LINE) as i32);
        labels.push(Label { text: shorten(text, EM, WIDTH)?, position, em: EM, colour: INK, ground: None });
    }
    Ok(labelled(tile, &labels)?)
}

/// Draws the boxes with their texts into the canvas, and the text `foot` into its lower left corner. `em` is the size
/// of the letters in pixels.
pub fn with_marks(mut canvas: Canvas, em: f64, marks: &[Mark], foot: &str) -> Result<Image> {
    marks.iter().for_each(|mark| canvas.outline(mark.bbox, mark.colour, mark.thickness));
    let (picture, mut labels) = (&canvas.image, Vec::new());
    for mark in marks {
        let bbox = canvas.place(mark.bbox);
        let text = shorten(&mark.text, em, picture.width.saturating_sub(4))?;
        let wide = label_width(&text, em)?.ceil() as usize;
        // The texts of many small objects close together would hide the objects and one another.
        if text.is_empty() || bbox[2] < wide as f64 / 2.0 || bbox[3] < em {
            continue;
        }
        // The text stays inside the picture, even where the box does not.
        let most = |length: usize, own: usize| length.saturating_sub(own + 2) as f64;
        let x = (bbox[0] + em / 3.0).clamp(0.0, most(picture.width, wide)) as i32;
        let y = (bbox[1] + em / 4.0).clamp(0.0, most(picture.height, em as usize + 2)) as i32;
        labels.push(grounded(text, x, y, em, mark.colour));
    }
    let text = shorten(foot, em, picture.width.saturating_sub(em as usize))?;
    let (x, y) = ((em / 2.0) as i32, picture.height as i32 - (1.5 * em) as i32);
    labels.extend((!text.is_empty()).then(|| grounded(text, x, y, em, DARK)));
    Ok(labelled(canvas.image, &labels)?)
}

/// Returns a label on a filled background, so that it can be read on any picture.
fn grounded(text: String, x: i32, y: i32, em: f64, ground: Colour) -> Label {
    let [red, green, blue] = ground.map(f64::from);
    let is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 120.0;
    Label { text, position: (x, y), em, colour: if is_light { DARK } else { INK }, ground: Some(ground) }
}

/// Returns as much of `text` as fits into `room` pixels, with an ellipsis where it is cut.
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
            canvas: Canvas::whole(Image::filled(width, height, [90; 3]).unwrap()),
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
        let sheet = contact_sheet(vec![tile(40, 30), tile(10, 30), tile(40, 10)], &legend).unwrap();
        let (gap, top) = (8, 8 + LINE + 8);
        assert_eq!((sheet.width, sheet.height), (gap + 3 * (WIDTH + gap), top + HEIGHT + 2 * LINE + gap));
        // The text's ground is wider than the text on the left.
        assert_eq!([pixel(&sheet, gap + LINE / 2 - 1, gap + 5), pixel(&sheet, 0, 0)], [RED, PAGE]);
        // The first fills its room, at ten times its size.
        assert_eq!([pixel(&sheet, gap, top), pixel(&sheet, gap + 99, top + 50)], [RED; 2]);
        assert_eq!(pixel(&sheet, gap + 100, top + 50), [90; 3]);
        assert_eq!(pixel(&sheet, gap + WIDTH - 1, top + HEIGHT - 1), [90; 3]);
        // The second is narrow and centred, the third low and at the bottom.
        let second = gap + WIDTH + gap;
        assert_eq!([pixel(&sheet, second + 149, top), pixel(&sheet, second + 150, top)], [PAGE, RED]);
        let third = second + WIDTH + gap;
        assert_eq!([pixel(&sheet, third, top + 199), pixel(&sheet, third, top + 200)], [PAGE, RED]);
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
        assert!(contact_sheet(vec![tiny], &[]).is_ok());
    }

    #[test]
    fn a_text_needs_half_its_width() {
        let is_written = |width: f64, text: &str| {
            let drawn = |text: &str| {
                let bbox = [0.0, 0.0, width, 40.0];
                let mark = Mark { bbox, colour: RED, thickness: 2, text: text.into() };
                with_marks(Canvas::whole(Image::filled(200, 100, [90; 3]).unwrap()), EM, &[mark], "").unwrap()
            };
            drawn(text) != drawn("")
        };
        let half = label_width("category", EM).unwrap() / 2.0;
        assert_eq!([half + 1.0, half - 1.0].map(|width| is_written(width, "category")), [true, false]);
    }

    #[test]
    fn texts_differ_from_their_ground_whatever_the_picture() {
        for picture in [[0; 3], [255; 3], [60, 230, 90]] {
            for colour in [[60, 230, 90], [235, 85, 10], [40, 30, 60]] {
                let canvas = Canvas::whole(Image::filled(200, 100, picture).unwrap());
                let bbox = [20.0, 20.0, 150.0, 60.0];
                let mark = Mark { bbox, colour, thickness: 2, text: "MMMMMM".into() };
                let drawn = with_marks(canvas, 14.0, &[mark], "").unwrap();
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
