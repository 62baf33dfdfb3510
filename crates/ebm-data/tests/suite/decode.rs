//! Decoding: every promised encoding, and files that want to do harm.

use std::path::Path;

use crate::common::{golden, picture};
use ebm_data::coco::{CocoDataset, LoadOptions, Purpose};
use ebm_data::decode::{DecodeLimits, decode_image, read_image, read_upright};
use ebm_data::encode::{write_jpeg, write_png};
use ebm_data::{Error, Image};
use ebm_testing::fixture;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

fn decode(bytes: &[u8]) -> ebm_data::Result<Image> {
    decode_image(bytes, Path::new("some/file"), &DecodeLimits::default())
}

/// The largest and the mean difference to Pillow's RGB.
fn difference(name: &str) -> (u8, f64) {
    let image = read_image(&golden("images").join(name)).unwrap();
    let expected = std::fs::read(golden("images").join(format!("{name}.rgb"))).unwrap();
    assert_eq!((image.width, image.height), (41, 29), "{name}");
    assert_eq!(image.pixels.len(), expected.len());
    let differences: Vec<u8> = image.pixels.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).collect();
    let mean = differences.iter().map(|&d| f64::from(d)).sum::<f64>() / differences.len() as f64;
    (differences.into_iter().max().unwrap(), mean)
}

#[test]
fn pngs_agree_with_pillow_exactly() {
    for name in ["rgb.png", "grey.png", "grey16.png", "palette.png", "rgba.png", "grey_alpha.png"] {
        assert_eq!(difference(name).0, 0, "{name}");
    }
}

#[test]
fn jpegs_agree_with_pillow_up_to_rounding() {
    // Decoders may round the inverse transform, the chroma upsampling and the colour conversion differently.
    for name in ["rgb_444.jpg", "exif_rotated.jpg", "grey.jpg", "cmyk.jpg", "rgb_420.jpg", "progressive.jpg"]
    {
        let (max, mean) = difference(name);
        assert!(max <= 4 && mean < 0.6, "{name}: max {max}, mean {mean}");
    }
}

#[test]
fn bmps_and_webps_agree_with_pillow_exactly() {
    let bmps = ["rgb.bmp", "grey.bmp", "palette.bmp", "bits.bmp", "rgba.bmp"];
    for name in bmps.into_iter().chain(["rgb.webp", "rgba.webp", "exif.webp"]) {
        assert_eq!(difference(name).0, 0, "{name}");
    }
    let [stored, upright] = [read_image, read_upright].map(|read| read(&golden("images/exif.webp")).unwrap());
    assert_eq!((stored.width, upright.width), (41, 29));
}

#[test]
fn truncated_files_are_errors() {
    for name in
        ["rgb_444.jpg", "rgb_420.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg", "rgb.png", "rgba.png"]
    {
        let bytes = std::fs::read(golden("images").join(name)).unwrap();
        for len in 0..bytes.len() {
            let error = decode(&bytes[..len]).expect_err(&format!("{name} cut to {len} of {}", bytes.len()));
            assert!(matches!(error, Error::Data(..)), "{error}");
            assert!(error.to_string().starts_with("some/file: "), "{error}");
        }
        assert!(decode(&bytes).is_ok());
    }
    for name in ["rgb.bmp", "palette.bmp", "rgba.bmp", "rgb.webp", "rgba.webp", "exif.webp"] {
        let bytes = std::fs::read(golden("images").join(name)).unwrap();
        for len in 0..bytes.len() {
            let error = decode(&bytes[..len]).expect_err(&format!("{name} cut to {len} of {}", bytes.len()));
            assert!(matches!(error, Error::Data(..)), "{name}: {len}: {error}");
        }
    }
}

/// Lengths that say less than there was: what the decoder has then ends before the picture does.
#[test]
fn a_webp_whose_lengths_are_shortened_is_damaged() {
    let bytes = std::fs::read(golden("images/rgb.webp")).unwrap();
    for cut in 1..40 {
        let mut shorter = bytes[..bytes.len() - 8 * cut.min((bytes.len() - 40) / 8)].to_vec();
        let length = shorter.len() as u32;
        shorter[4..8].copy_from_slice(&(length - 8).to_le_bytes());
        shorter[16..20].copy_from_slice(&(length - 20).to_le_bytes());
        assert!(matches!(decode(&shorter), Err(Error::Data(..))), "{length} of {}", bytes.len());
    }
}

/// Data that end before their last block, with the marker of an end behind them: a decoder goes on with zeros.
#[test]
fn a_jpeg_that_is_cut_and_ended_again_is_truncated() {
    let image = picture(301, 203);
    let jpeg = |set: fn(&mut Encoder<&mut Vec<u8>>)| {
        let mut bytes = Vec::new();
        let mut encoder = Encoder::new(&mut bytes, 90);
        set(&mut encoder);
        encoder.encode(&image.pixels, 301, 203, ColorType::Rgb).unwrap();
        bytes
    };
    for (name, bytes) in [
        ("4:2:0", jpeg(|encoder| encoder.set_sampling_factor(SamplingFactor::R_4_2_0))),
        ("4:4:4", jpeg(|encoder| encoder.set_sampling_factor(SamplingFactor::R_4_4_4))),
        ("restarts", jpeg(|encoder| encoder.set_restart_interval(7))),
        ("own tables", jpeg(|encoder| encoder.set_optimized_huffman_tables(true))),
        ("progressive", jpeg(|encoder| encoder.set_progressive(true))),
    ] {
        assert!(decode(&bytes).is_ok(), "{name}");
        let first = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 20;
        let cuts = (1..40).map(|part| first + (bytes.len() - first) * part / 40);
        for cut in cuts.chain([bytes.len() - 2 - 24]) {
            // Not within a pair that stands for one byte.
            let cut = if bytes[cut - 1] == 0xff { cut - 1 } else { cut };
            let found = decode(&[&bytes[..cut], &[0xff, 0xd9]].concat());
            assert!(matches!(found, Err(Error::Data(..))), "{name} cut to {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn real_jpegs_decode_whole_and_cut_are_errors() {
    let dir = fixture("coco");
    for (split, count) in [("train2017", 3), ("val2017", 4)] {
        let options = LoadOptions::new(Purpose::Eval);
        let json = dir.join(format!("annotations/instances_{split}.json"));
        let dataset = CocoDataset::load(&json, &dir.join(split), &options).unwrap();
        assert_eq!(dataset.images.len(), count);
        for annotated in &dataset.images {
            let image = read_image(&annotated.path).unwrap();
            assert_eq!((image.width, image.height), (annotated.width, annotated.height));
        }
    }
    let bytes = std::fs::read(dir.join("val2017/000000343937.jpg")).unwrap();
    for part in 0..40 {
        assert!(decode(&bytes[..bytes.len() * part / 40]).is_err());
    }
    for missing in 1..20 {
        assert!(decode(&bytes[..bytes.len() - missing]).is_err());
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let mut state = 1u32;
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    let names =
        ["rgb_420.jpg", "progressive.jpg", "cmyk.jpg", "rgba.png", "rgb.webp", "rgba.bmp", "bits.bmp"];
    for name in names {
        let bytes = std::fs::read(golden("images").join(name)).unwrap();
        for _ in 0..300 {
            let mut bytes = bytes.clone();
            for _ in 0..3 {
                let at = random() % bytes.len();
                bytes[at] = random() as u8;
            }
            // A change in the entropy-coded data may go unnoticed; the shape must be sound then.
            if let Ok(image) = decode(&bytes) {
                assert_eq!(image.pixels.len(), 3 * image.width * image.height);
            }
        }
    }
}

#[test]
fn what_is_no_image_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let zeros = [0u8; 100];
    for (content, said) in [(&b""[..], "empty"), (&zeros, "neither"), (b"\xff\xd8\xff", "not a readable")] {
        let path = dir.path().join("picture.jpg");
        std::fs::write(&path, content).unwrap();
        let error = read_image(&path).unwrap_err();
        assert!(matches!(error, Error::Data(..)));
        assert!(error.to_string().contains(said) && error.to_string().contains("picture.jpg"), "{error}");
    }
    assert!(matches!(read_image(dir.path()), Err(Error::Io { .. })));
}

#[test]
fn other_formats_are_refused_and_a_lossless_webp_is_read() {
    let mut compressed = std::fs::read(golden("images/rgb.bmp")).unwrap();
    compressed[30] = 1;
    for (content, name) in [
        (&b"GIF89a...."[..], "Gif is not read; convert it"),
        (include_bytes!("../golden/images/animated.webp"), "an animated WebP is not read"),
        (&compressed, "a compressed BMP is not read"),
        (b"<!DOCTYPE html><title>404</title>", "neither JPEG, PNG, BMP nor WebP"),
    ] {
        let error = decode(content).unwrap_err();
        assert!(matches!(error, Error::Data(..)) && error.to_string().contains(name), "{error}");
    }
    let images = ["lossless.webp", "rgb.png"].map(|name| read_image(&golden("images").join(name)).unwrap());
    assert_eq!(images[0], images[1]);
}

/// `rgb_444.jpg` with the EXIF tag 0x0112 = `orientation`: a TIFF header, one directory with one entry, no
/// further one.
fn tagged_jpeg(orientation: u8) -> Vec<u8> {
    let plain = std::fs::read(golden("images/rgb_444.jpg")).unwrap();
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0]);
    let mut bytes = vec![0xff, 0xd8, 0xff, 0xe1];
    bytes.extend(u16::try_from(exif.len() + 2).unwrap().to_be_bytes());
    bytes.extend(exif);
    bytes.extend(&plain[2..]);
    bytes
}

#[test]
fn an_upright_image_follows_its_tag_and_a_stored_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tagged.jpg");
    let plain = read_image(&golden("images/rgb_444.jpg")).unwrap();
    let (w, h) = (plain.width, plain.height);
    for orientation in 1..=8 {
        std::fs::write(&path, tagged_jpeg(orientation)).unwrap();
        assert_eq!(read_image(&path).unwrap(), plain);
        let upright = read_upright(&path).unwrap();
        // Where the stored pixel of row r and column c is seen, by EXIF's table of which sides the 0th row
        // and the 0th column are: 1 top, left; 2 top, right; 3 bottom, right; 4 bottom, left; 5 left, top; 6
        // right, top; 7 right, bottom; 8 left, bottom.
        let seen = |r: usize, c: usize| match orientation {
            1 => (c, r),
            2 => (w - 1 - c, r),
            3 => (w - 1 - c, h - 1 - r),
            4 => (c, h - 1 - r),
            5 => (r, c),
            6 => (h - 1 - r, c),
            7 => (h - 1 - r, w - 1 - c),
            _ => (r, w - 1 - c),
        };
        assert_eq!((upright.width, upright.height), if orientation < 5 { (w, h) } else { (h, w) });
        for (r, c) in (0..h).flat_map(|r| (0..w).map(move |c| (r, c))) {
            let (x, y) = seen(r, c);
            let (from, to) = (3 * (r * w + c), 3 * (y * upright.width + x));
            assert_eq!(upright.pixels[to..to + 3], plain.pixels[from..from + 3], "{orientation}: {r} {c}");
        }
    }
    // A file without the tag is as it is stored.
    assert_eq!(
        read_upright(&golden("images/rgb.png")).unwrap(),
        read_image(&golden("images/rgb.png")).unwrap()
    );
}

/// A JPEG whose frame header claims 65500² pixels.
fn huge_jpeg() -> Vec<u8> {
    let mut bytes = std::fs::read(golden("images/rgb_444.jpg")).unwrap();
    let frame = bytes.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    bytes[frame + 5..frame + 9].copy_from_slice(&[0xff, 0xdc, 0xff, 0xdc]);
    bytes
}

/// The checksum of a PNG's chunk: of its kind and content.
fn checksum(chunk: &[u8]) -> [u8; 4] {
    let crc = chunk.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    (!crc).to_be_bytes()
}

#[test]
fn a_palette_of_parts_of_colours_is_refused() {
    let bytes = std::fs::read(golden("images/palette.png")).unwrap();
    let kind = bytes.windows(4).position(|kind| kind == b"PLTE").unwrap();
    let length = u32::from_be_bytes(*bytes[kind - 4..].first_chunk().unwrap()) as usize;
    for other in [0, 1, 2, 4, length - 1, 769, 771, 3000] {
        let chunk = [&b"PLTE"[..], &vec![7; other]].concat();
        let own = [&(other as u32).to_be_bytes()[..], &chunk, &checksum(&chunk)].concat();
        let forged = [&bytes[..kind - 4], &own, &bytes[kind + 8 + length..]].concat();
        let error = decode(&forged).unwrap_err().to_string();
        assert!(error.contains(&format!("its palette has {other} bytes")), "{error}");
    }
}

/// A PNG whose header, with a valid checksum, claims 2³¹ - 1 columns and rows.
fn huge_png() -> Vec<u8> {
    let mut bytes = std::fs::read(golden("images/rgb.png")).unwrap();
    bytes[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    let sum = checksum(&bytes[12..29]);
    bytes[29..33].copy_from_slice(&sum);
    bytes
}

/// `name` with other numbers for width and height at `at`, of `N` bytes each.
fn other_sides<const N: usize>(name: &str, at: usize, sides: [[u8; N]; 2]) -> Vec<u8> {
    let mut bytes = std::fs::read(golden("images").join(name)).unwrap();
    bytes[at..at + 2 * N].copy_from_slice(&sides.concat());
    bytes
}

#[test]
fn huge_headers_are_refused_before_allocation() {
    let start = std::time::Instant::now();
    assert!(decode(&huge_jpeg()).is_err());
    assert!(decode(&huge_png()).is_err());
    let wide = 16_000u32.to_le_bytes();
    let said = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert!(said(&other_sides("rgb.bmp", 18, [wide; 2])).contains("16000x16000 pixels exceed the limit"));
    assert!(decode(&other_sides("rgb.bmp", 18, [4000u32.to_le_bytes(); 2])).is_err());
    let lossy = other_sides("rgb.webp", 26, [16_000u16.to_le_bytes(); 2]);
    assert!(said(&lossy).contains("16000x16000 pixels exceed the limit"));
    // Allocating and clearing 12 GB would take longer.
    assert!(start.elapsed().as_millis() < 100);
}

#[test]
fn limits_apply_to_file_side_and_area() {
    let path = golden("images/rgb.png");
    let read = |path: &Path, limits| decode_image(&std::fs::read(path).unwrap(), path, &limits);
    let said = |path: &Path, limits| read(path, limits).unwrap_err().to_string();
    let limits = DecodeLimits { max_side: 41, max_pixels: 41 * 29, ..DecodeLimits::default() };
    assert!(read(&path, limits).is_ok());
    let dir = tempfile::tempdir().unwrap();
    let sparse = dir.path().join("a.jpg");
    std::fs::File::create(&sparse).unwrap().set_len((64 << 20) + 1).unwrap();
    assert!(read_image(&sparse).unwrap_err().to_string().contains("exceed the limit of 67108864;"));
    let sizes = [DecodeLimits { max_side: 40, ..limits }, DecodeLimits { max_pixels: 41 * 29 - 1, ..limits }];
    for path in [path, golden("images/rgb_444.jpg")] {
        sizes
            .iter()
            .for_each(|limits| assert!(said(&path, *limits).contains("41x29 pixels exceed the limit")));
    }
}

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let image = picture(17, 5);
    let png = dir.path().join("a/b.png");
    write_png(&png, &image).unwrap();
    assert_eq!(read_image(&png).unwrap(), image);

    let flat = Image::filled(19, 7, [200, 100, 50]).unwrap();
    let jpeg = dir.path().join("c.jpg");
    write_jpeg(&jpeg, &flat, 95).unwrap();
    let read = read_image(&jpeg).unwrap();
    assert_eq!((read.width, read.height), (19, 7));
    assert!(read.pixels.iter().zip(&flat.pixels).all(|(a, b)| a.abs_diff(*b) <= 3));
    assert!(matches!(write_jpeg(&jpeg, &flat, 0), Err(Error::Failure(..))));
}
