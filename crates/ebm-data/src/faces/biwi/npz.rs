//! FSA-Net's npz files: `BIWI_train.npz` and `BIWI_test.npz`.

use std::io::{Cursor, Write};
use std::path::Path;
use std::sync::Arc;

use ::zip::write::SimpleFileOptions;
use ::zip::{CompressionMethod, DateTime, ZipWriter};

use super::archive::{Archive, Array};
use super::check_angles;
use super::npy::{self, Header};
use crate::error::{Error, Result};
use crate::faces::{Face, Faces, Pixels, Tolerance};
use crate::image::Image;

/// The largest side of a face, in pixels.
const MAX_SIDE: usize = 4096;
/// The memory that a face takes beside its pixels, in bytes.
const FACE_BYTES: u64 = 256;
/// What scalars NumPy makes of a Python integer, on one machine or another.
const INTEGERS: [(&str, usize); 8] =
    [("<i8", 8), ("<i4", 4), ("<i2", 2), ("|i1", 1), ("<u8", 8), ("<u4", 4), ("<u2", 2), ("|u1", 1)];

/// How to read an npz file.
#[derive(Clone, Debug, PartialEq)]
pub struct NpzOptions {
    /// The largest array, in bytes; all images are held in memory.
    pub max_array_bytes: u64,
    /// How much may be defective.
    pub tolerance: Tolerance,
}

impl Default for NpzOptions {
    /// 2 GiB, 1 defect in 1000. BIWI's training images take 130 MB.
    fn default() -> Self {
        Self { max_array_bytes: 2 << 30, tolerance: Tolerance::default() }
    }
}

/// Reads faces and poses from an npz file in FSA-Net's form, stored or deflated.
///
/// Arrays: `image`, `uint8 (N, H, W, 3)`, blue first (as OpenCV reads files), which becomes RGB here; `pose`,
/// `float64` or `float32 (N, 3)`: yaw, pitch and roll in degrees; and, if present, `img_size`, an integer
/// equal to H and W. Others are ignored. A face's name is its position with six digits: `000012`.
///
/// A pose is defective if an angle is not finite or beyond 180 degrees.
///
/// Nothing is allocated for what a header promises before it agrees with the size of the data, and data that
/// would unpack to more than 100 times their size are refused.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be opened, [`Error::Format`] for one that is no such archive, is
/// damaged, exceeds a limit, or whose headers contradict each other or the data; [`Error::TooManyDefects`]
/// above the tolerated fraction; [`Error::Argument`] for a fraction out of its domain.
pub fn read_npz(path: &Path, options: &NpzOptions) -> Result<Faces> {
    let mut collected = Faces::default();
    let file = ebm_files::open_input(path).map_err(|error| Error::io("read", path, error))?;
    let fail = |detail: String| Error::Format {
        path: path.to_owned(),
        expected: "an npz file of faces and poses",
        detail,
    };
    let mut archive = Archive::open(file, options.max_array_bytes).map_err(fail)?;
    let poses = read_poses(&mut archive).map_err(fail)?;
    let size = read_size(&mut archive).map_err(fail)?;
    let mut images = Images::open(&mut archive, poses.len(), size).map_err(fail)?;
    for (index, &pose) in poses.iter().enumerate() {
        let image = images.next_image().map_err(|detail| fail(format!("image {index}: {detail}")))?;
        let name = format!("{index:06}");
        let outcome = check_angles(pose).map(|target| {
            let pixels = Pixels::Memory(Arc::new(image));
            Face { name: name.clone(), pixels, target }
        });
        collected.push(path, &name, outcome);
    }
    images.array.finish().map_err(|detail| fail(format!("array `image`: {detail}")))?;
    collected.within(&options.tolerance)
}

/// Writes faces as [`read_npz`] reads them, uncompressed: the form that NumPy's `savez` writes.
///
/// The bytes depend on the faces alone. Names are not kept.
///
/// # Errors
/// [`Error::Argument`] unless there are faces, all in memory, square, of one size, with three finite angles,
/// and less than 2 GiB; [`Error::Io`] if the file cannot be written.
pub fn write_npz(path: &Path, faces: &[Face]) -> Result<()> {
    let fail = |detail: String| Error::Argument { name: "faces", detail };
    let mut side = None;
    let mut images = Vec::new();
    let mut poses = Vec::new();
    for Face { name, pixels, target } in faces {
        let Pixels::Memory(image) = pixels else {
            return Err(fail(format!("{name} is not in memory")));
        };
        let expected = *side.get_or_insert(image.width);
        if (image.width, image.height) != (expected, expected) || expected > MAX_SIDE {
            let (width, height) = (image.width, image.height);
            return Err(fail(format!("{name} has {width}x{height} pixels instead of {expected}x{expected}")));
        }
        if target.len() != 3 || !target.iter().all(|angle| angle.is_finite()) {
            return Err(fail(format!("{name} has the target {target:?}, not three finite angles")));
        }
        images.extend(image.pixels.chunks_exact(3).flat_map(|pixel| pixel.iter().rev()));
        poses.extend(target.iter().flat_map(|&angle| f64::from(angle).to_le_bytes()));
    }
    let Some(side) = side else { return Err(fail("there are none".to_owned())) };
    if images.len() >= 2 << 30 {
        return Err(fail(format!("{} bytes of pixels are too many for one file", images.len())));
    }
    let arrays: [(&str, &str, Vec<usize>, &[u8]); 3] = [
        ("image", "|u1", vec![faces.len(), side, side, 3], &images),
        ("pose", "<f8", vec![faces.len(), 3], &poses),
        ("img_size", "<i8", Vec::new(), &(side as i64).to_le_bytes()),
    ];
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::DEFAULT);
    let zipped = |error: ::zip::result::ZipError| Error::io("write", path, std::io::Error::other(error));
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, descr, shape, data) in arrays {
        zip.start_file(format!("{name}.npy"), options).map_err(zipped)?;
        let header = Header { descr: descr.to_owned(), fortran_order: false, shape };
        let written = zip.write_all(&header.to_bytes()).and_then(|()| zip.write_all(data));
        written.map_err(|error| Error::io("write", path, error))?;
    }
    crate::files::write_atomic(path, zip.finish().map_err(zipped)?.get_ref())
}

/// `(N, 3)`.
fn read_poses(archive: &mut Archive) -> std::result::Result<Vec<[f64; 3]>, String> {
    let limit = archive.max_memory();
    let array = archive.array("pose", &[("<f8", 8), ("<f4", 4)])?;
    let Array { header, mut entry } = array.ok_or("it holds no array `pose`")?;
    let fail = |detail| format!("array `pose`: {detail}");
    let [count, 3] = header.shape[..] else {
        return Err(fail(format!("shape {:?} is not (N, 3)", header.shape)));
    };
    if count == 0 {
        return Err(fail("it is empty".to_owned()));
    }
    let memory = FACE_BYTES.saturating_mul(count as u64);
    if memory > limit {
        return Err(fail(format!(
            "{count} faces take {memory} bytes, which exceed the limit of {limit} for such a file"
        )));
    }
    let double = header.descr == "<f8";
    let mut poses = Vec::with_capacity(count);
    for _ in 0..count {
        let mut pose = [0.; 3];
        for angle in &mut pose {
            *angle = if double {
                f64::from_le_bytes(npy::read_array(&mut entry).map_err(fail)?)
            } else {
                f32::from_le_bytes(npy::read_array(&mut entry).map_err(fail)?).into()
            };
        }
        poses.push(pose);
    }
    Array { header, entry }.finish().map_err(fail)?;
    Ok(poses)
}

fn read_size(archive: &mut Archive) -> std::result::Result<Option<u64>, String> {
    let Some(Array { header, mut entry }) = archive.array("img_size", &INTEGERS)? else { return Ok(None) };
    let fail = |detail| format!("array `img_size`: {detail}");
    let item = INTEGERS.iter().find(|(descr, _)| *descr == header.descr).map_or(0, |(_, item)| *item);
    if header.data_bytes(1) != Some(1) {
        return Err(fail(format!("shape {:?} is not that of one number", header.shape)));
    }
    // A negative number reads as one too large for any image.
    let mut bytes = [0; 8];
    npy::read_all(&mut entry, &mut bytes[..item]).map_err(fail)?;
    Array { header, entry }.finish().map_err(fail)?;
    Ok(Some(u64::from_le_bytes(bytes)))
}

/// The array `image`, read one image at a time.
struct Images<'a> {
    array: Array<'a>,
    width: usize,
    height: usize,
}

impl<'a> Images<'a> {
    /// Checks the shape against the number of poses and `img_size`.
    fn open(archive: &'a mut Archive, poses: usize, size: Option<u64>) -> std::result::Result<Self, String> {
        let array = archive.array("image", &[("|u1", 1)])?.ok_or("it holds no array `image`")?;
        let fail = |detail| Err(format!("array `image`: {detail}"));
        let [count, height, width, 3] = array.header.shape[..] else {
            return fail(format!("shape {:?} is not (N, H, W, 3)", array.header.shape));
        };
        if count != poses {
            return fail(format!("{count} images, but {poses} poses"));
        }
        if [width, height].iter().any(|side| !(1..=MAX_SIDE).contains(side)) {
            return fail(format!("{width}x{height} pixels are not 1 to {MAX_SIDE} per side"));
        }
        if let Some(size) = size.filter(|&size| (width as u64, height as u64) != (size, size)) {
            return fail(format!("{width}x{height} pixels, but `img_size` is {size}"));
        }
        Ok(Self { array, width, height })
    }

    /// The next image, from BGR to RGB.
    fn next_image(&mut self) -> std::result::Result<Image, String> {
        let mut pixels = vec![0; 3 * self.width * self.height];
        npy::read_all(&mut self.array.entry, &mut pixels)?;
        for pixel in pixels.chunks_exact_mut(3) {
            pixel.swap(0, 2);
        }
        Image::new(self.width, self.height, pixels).map_err(|error| error.to_string())
    }
}
