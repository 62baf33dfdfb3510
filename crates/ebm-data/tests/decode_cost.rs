//! Files that are smaller than what decoding them would take, and JPEGs that end before their picture does.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use common::picture;
use ebm_data::decode::{DecodeLimits, decode_image, read_header, read_upright};
use ebm_data::{Error, Image};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

fn decode(bytes: &[u8]) -> ebm_data::Result<Image> {
    decode_image(bytes, Path::new("some/file"), &DecodeLimits::default())
}

/// The most memory that this process ever held, in MiB; 0 where the system does not tell.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

fn chunk(kind: &[u8], content: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(kind);
    crc.update(content);
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length, kind, content, &crc.sum().to_be_bytes()].concat()
}

/// A PNG of this header with these chunks behind it; the rows are of no filter that there is.
fn png(width: u32, height: u32, [depth, colour]: [u8; 2], ancillary: &[u8]) -> Vec<u8> {
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend([depth, colour, 0, 0, 0]);
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend(chunk(b"IHDR", &header));
    bytes.extend(ancillary);
    bytes.extend(chunk(b"IDAT", &deflated(&[7; 20_000])));
    bytes.extend(chunk(b"IEND", &[]));
    bytes
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn what_a_png_says_beside_its_colours_costs_nothing() {
    let bomb = deflated(&vec![0; 200 << 20]);
    let start = peak();
    for (kind, head) in [(b"iCCP", &b"profile\0\0"[..]), (b"zTXt", b"words\0\0")] {
        let bytes = png(4, 4, [8, 0], &chunk(kind, &[head, &bomb].concat()));
        let image = decode(&bytes);
        assert!(bytes.len() < 2 << 20, "{}", bytes.len());
        assert!(matches!(image, Err(Error::Decode { .. })), "{image:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bomb.png");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_header(&path).unwrap().width, 4);
        assert!(read_upright(&path).is_err());
    }
    assert!(peak() < start + 100, "{start} and then {}", peak());
}

#[test]
fn a_header_that_its_data_cannot_hold_is_refused_before_anything_is_allocated() {
    let start = peak();
    let mut large = jpeg(&picture(64, 64), |_| ());
    let frame = large.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    large[frame + 5..frame + 9].copy_from_slice(&[0x20, 0, 0x20, 0]);
    for bytes in [large, png(8192, 8192, [8, 2], &[])] {
        let error = decode(&bytes).unwrap_err();
        assert!(matches!(error, Error::Decode { .. }), "{error}");
        assert!(error.to_string().contains("cannot hold 8192x8192 pixels"), "{error}");
    }
    assert!(peak() < start + 100, "{start} and then {}", peak());
}

#[test]
fn memory_has_a_limit_that_is_named() {
    let image = picture(64, 48);
    let limits = DecodeLimits { max_bytes: 30_000, ..DecodeLimits::default() };
    let cost = |bytes: &[u8]| decode_image(bytes, Path::new("some/file"), &limits);
    assert!(cost(&jpeg(&image, |_| ())).is_ok());
    // Progressive pictures are held as coefficients, of two bytes each, and transparency and 16 bits take
    // room too.
    let progressive = jpeg(&image, |encoder| encoder.set_progressive(true));
    assert!(decode(&progressive).is_ok());
    for bytes in [progressive, png(64, 48, [16, 6], &[])] {
        let error = cost(&bytes).unwrap_err();
        assert!(matches!(error, Error::DecodeCost { what: "bytes of memory", limit: 30_000, .. }), "{error}");
        assert!(error.to_string().contains("above the limit of 30000"), "{error}");
    }
}

/// A progressive grey JPEG of one colour: a scan of means, each a bit, and 98 scans of empty runs of blocks.
fn many_scans(width: u16, height: u16) -> Vec<u8> {
    let segment = |marker: u8, content: &[u8]| {
        let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
        [&[0xff, marker], &length[..], content].concat()
    };
    // One code, a zero: no difference of the means; 16384 and up to 16383 more blocks that are empty.
    let table = |class: u8, symbol: u8| {
        let mut table = vec![class, 1];
        table.extend([0; 15]);
        table.push(symbol);
        segment(0xc4, &table)
    };
    let blocks = usize::from(width).div_ceil(8) * usize::from(height).div_ceil(8);
    let frame = [&[8][..], &height.to_be_bytes(), &width.to_be_bytes(), &[1, 1, 0x11, 0]].concat();
    let mut quantisation = vec![0];
    quantisation.extend([1; 64]);
    let mut bytes = vec![0xff, 0xd8];
    bytes.extend(segment(0xdb, &quantisation));
    bytes.extend(segment(0xc2, &frame));
    bytes.extend([table(0, 0), table(0x10, 0xe0)].concat());
    bytes.extend(segment(0xda, &[1, 1, 0, 0, 0, 0]));
    bytes.extend(vec![0; blocks.div_ceil(8)]);
    for _ in 0..98 {
        bytes.extend(segment(0xda, &[1, 1, 0, 1, 63, 0]));
        // Runs of 16384 blocks in 15 bits, eight of which fill 15 bytes.
        bytes.extend(vec![0; (blocks.div_ceil(16384) * 15).div_ceil(8)]);
    }
    bytes.extend([0xff, 0xd9]);
    bytes
}

#[test]
fn scans_are_counted_before_they_are_decoded() {
    assert_eq!(decode(&many_scans(64, 40)).unwrap().height, 40);
    let bytes = many_scans(8192, 4096);
    assert!(bytes.len() < 80_000, "{}", bytes.len());
    let start = Instant::now();
    let error = decode(&bytes).unwrap_err();
    assert!(matches!(error, Error::DecodeCost { what: "visits of blocks", .. }), "{error}");
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
}

/// `image` as a JPEG, as this sets the encoder up.
fn jpeg(image: &Image, set: impl Fn(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 90);
    set(&mut encoder);
    let (width, height) = (u16::try_from(image.width).unwrap(), u16::try_from(image.height).unwrap());
    encoder.encode(&image.pixels, width, height, ColorType::Rgb).unwrap();
    bytes
}

/// The kinds of JPEGs that there are, and where the last data of each begin.
fn jpegs() -> Vec<(&'static str, Vec<u8>, usize)> {
    let image = picture(301, 203);
    let with = |set: fn(&mut Encoder<&mut Vec<u8>>)| jpeg(&image, set);
    let kinds = [
        ("4:2:0", with(|encoder| encoder.set_sampling_factor(SamplingFactor::R_4_2_0))),
        ("4:4:4", with(|encoder| encoder.set_sampling_factor(SamplingFactor::R_4_4_4))),
        ("restarts", with(|encoder| encoder.set_restart_interval(7))),
        ("own tables", with(|encoder| encoder.set_optimized_huffman_tables(true))),
        ("progressive", with(|encoder| encoder.set_progressive(true))),
    ];
    kinds
        .map(|(name, bytes)| {
            let scan = bytes.windows(2).rposition(|pair| pair == [0xff, 0xda]).unwrap();
            let header = usize::from(bytes[scan + 3]) + 2;
            (name, bytes, scan + header)
        })
        .into()
}

#[test]
fn a_jpeg_that_is_cut_and_ended_again_is_truncated() {
    for (name, bytes, data) in jpegs() {
        assert!(decode(&bytes).is_ok(), "{name}");
        let first = bytes.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap() + 20;
        let cuts = (1..40)
            .map(|part| first + (bytes.len() - first) * part / 40)
            .chain([data + (bytes.len() - data) / 2, bytes.len() - 2 - 24]);
        for cut in cuts {
            // Not within a pair that stands for one byte.
            let cut = if bytes[cut - 1] == 0xff { cut - 1 } else { cut };
            let ended = [&bytes[..cut], &[0xff, 0xd9]].concat();
            let found = decode(&ended);
            assert!(matches!(found, Err(Error::Decode { .. })), "{name} cut to {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn a_jpeg_whose_rest_is_filler_is_damaged() {
    for (name, bytes, data) in jpegs() {
        let end = bytes.len() - 2;
        for part in 1..8 {
            let from = data + (end - data) * part / 8;
            for filler in [0, 0x55] {
                let mut filled = bytes.clone();
                filled[from..end].fill(filler);
                assert!(decode(&filled).is_err(), "{name} with {filler} from {from} to {end}");
            }
        }
        for length in [0, 2, 64, 5000] {
            let longer = [&bytes[..end], &vec![0; length], &bytes[end..]].concat();
            // A few bytes of padding are what some cameras write.
            assert_eq!(decode(&longer).is_ok(), length < 10, "{name} with {length} bytes more");
        }
    }
}
