//! Worse images of the same faces, for asking whether a network notices.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Face, Faces, Pixels};
use crate::error::{Error, Result};
use crate::image::Image;
use crate::quarantine::{DefectCode, Finding};
use crate::resize::resize_pillow;

/// How images are made worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Degradation {
    /// An image is reduced by this factor and enlarged again, as if taken from so many times further away; 1
    /// leaves it.
    pub blur: f64,
    /// What every sample is multiplied by, from 0 to 1; 1 leaves it.
    pub brightness: f64,
}

impl Degradation {
    /// The largest blur: a face of any size is a pixel then.
    const MAX_BLUR: f64 = 1e4;

    /// The same faces made worse, in memory; as they are where nothing is asked for. What cannot be decoded
    /// is left out.
    ///
    /// # Errors
    /// [`Error::Argument`] for a blur outside 1 to 10⁴ or a brightness outside 0 to 1.
    pub fn of(&self, faces: Faces) -> Result<Faces> {
        if !(1. ..=Self::MAX_BLUR).contains(&self.blur) {
            let detail =
                format!("{} is no blur; give 1 for none, 4 for a quarter of the resolution", self.blur);
            return Err(Error::Argument { name: "blur", detail });
        }
        if !(0. ..=1.).contains(&self.brightness) {
            let detail = format!("{}: give a factor from 0 to 1, such as 0.3", self.brightness);
            return Err(Error::Argument { name: "brightness", detail });
        }
        if (self.blur, self.brightness) == (1., 1.) {
            return Ok(faces);
        }
        let Faces { faces, mut quarantine } = faces;
        let worse = |face: Face| match face.pixels.decode() {
            Ok(image) => Ok(Face { pixels: Pixels::Memory(Arc::new(self.image(&image))), ..face }),
            Err(error) => Err((face.name, error.to_string())),
        };
        let worse: Vec<std::result::Result<Face, (String, String)>> =
            faces.into_par_iter().map(worse).collect();
        let mut kept = Vec::with_capacity(worse.len());
        for face in worse {
            match face {
                Ok(face) => kept.push(face),
                Err((name, detail)) => {
                    let finding = Finding::new(DefectCode::UnreadableImage, detail);
                    quarantine.defects.push(finding.in_sample(name.as_ref(), format!("face {name}")));
                }
            }
        }
        Ok(Faces { faces: kept, quarantine })
    }

    /// One image made worse.
    fn image(&self, image: &Image) -> Image {
        let reduced = |side: usize| ((side as f64 / self.blur).round() as usize).max(1);
        let small = resize_pillow(image, reduced(image.width), reduced(image.height));
        let mut worse = resize_pillow(&small, image.width, image.height);
        for sample in &mut worse.pixels {
            *sample = (f64::from(*sample) * self.brightness).round() as u8;
        }
        worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faces(image: Image) -> Faces {
        let pixels = Pixels::Memory(Arc::new(image));
        let face = Face { name: "0".to_owned(), pixels, target: vec![30.] };
        Faces { faces: vec![face], ..Faces::default() }
    }

    #[test]
    fn images_are_darkened_and_blurred_to_their_mean() {
        let image = Image::new(4, 1, [0u8, 200, 0, 200].into_iter().flat_map(|v| [v; 3]).collect()).unwrap();
        let worse = |blur, brightness| {
            let faces = Degradation { blur, brightness }.of(faces(image.clone())).unwrap();
            faces.faces[0].pixels.decode().unwrap()
        };
        assert_eq!(worse(1., 1.), image);
        assert_eq!(worse(1., 0.5).pixels[..6], [0, 0, 0, 100, 100, 100]);
        // One pixel is left, and it is everywhere.
        assert_eq!(worse(4., 0.5).pixels, vec![50; 12]);
    }

    #[test]
    fn what_is_no_degradation_is_refused_and_what_is_no_image_left_out() {
        let image = || Image::filled(2, 2, [9; 3]).unwrap();
        for (blur, brightness) in
            [(0.5, 1.), (f64::NAN, 1.), (1e9, 1.), (1., -0.1), (1., 1.5), (1., f64::NAN)]
        {
            assert!(matches!(
                (Degradation { blur, brightness }).of(faces(image())),
                Err(Error::Argument { .. })
            ));
        }
        let mut two = faces(image());
        let gone = Face { name: "1".to_owned(), pixels: Pixels::File("none.png".into()), target: vec![30.] };
        two.faces.push(gone);
        let left = Degradation { blur: 2., brightness: 1. }.of(two).unwrap();
        assert_eq!((left.faces.len(), left.quarantine.defects.len()), (1, 1));
    }
}
