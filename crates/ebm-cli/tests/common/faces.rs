//! Photographs of faces that show nothing.

use std::path::Path;

/// Writes six people's photographs in the layout of Pointing'04 below `datasets`, one for each of `pans`.
pub fn pointing04(datasets: &Path, pans: &[i32]) {
    for person in 1..=6 {
        let folder = datasets.join(format!("pointing04/Person{person:02}"));
        std::fs::create_dir_all(&folder).unwrap();
        for (number, pan) in pans.iter().enumerate() {
            let stem = folder.join(format!("person{person:02}1{number:02}+15{pan:+}"));
            let image = ebm_data::Image::filled(40, 30, [(128 + pan) as u8; 3]).unwrap();
            ebm_data::encode::write_png(&stem.with_extension("png"), &image).unwrap();
            std::fs::write(stem.with_extension("txt"), "photograph\n\nFace\n20\n15\n12\n12\n").unwrap();
        }
    }
}
