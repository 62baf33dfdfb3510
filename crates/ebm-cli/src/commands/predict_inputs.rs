//! Inputs of `ebm predict`, and names of the pictures that it draws.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ebm_data::Image;
use ebm_data::encode::write_png;
use ebm_data::files::files_in;

/// File extensions of images.
const IMAGES: [&str; 5] = ["bmp", "jpeg", "jpg", "png", "webp"];
/// File extensions of videos.
const VIDEOS: [&str; 9] = ["avi", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "webm", "wmv"];

/// Returns `true` if the path has a video's extension.
pub fn is_video(path: &Path) -> bool {
    ends_in(path, &VIDEOS)
}

fn ends_in(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|own| endings.iter().any(|known| own.eq_ignore_ascii_case(known)))
}

/// Returns the images that the arguments name, each once. An argument is a file, a folder, whose images are all taken
/// by name, or a pattern such as `photos/*.jpg`, where no shell has expanded it.
pub fn image_files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>> {
    listed(arguments, &IMAGES)
}

/// Returns the images as [`image_files`] does, and the videos that are named or match a pattern.
pub fn image_and_video_files(arguments: &[PathBuf]) -> Result<Vec<PathBuf>> {
    listed(arguments, &[&IMAGES[..], &VIDEOS].concat())
}

/// Returns the files that the arguments name. Files that match a pattern must have one of these extensions.
fn listed(arguments: &[PathBuf], endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in arguments {
        let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']) && !path.exists());
        if let Some(pattern) = pattern {
            files.extend(matches(pattern, endings)?);
        } else if path.is_dir() {
            let found = images_in(path)?;
            ensure!(!found.is_empty(), "{} has no image: none ends in {}", path.display(), IMAGES.join(", "));
            files.extend(found);
        } else {
            files.push(path.clone());
        }
    }
    let mut known = BTreeSet::new();
    files.retain(|path| known.insert(path.clone()));
    Ok(files)
}

/// Returns the files with one of these extensions that match a pattern, by name.
fn matches(pattern: &str, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let paths = glob::glob(pattern).with_context(|| format!("{pattern:?} is no pattern"))?;
    let mut found =
        paths.collect::<Result<Vec<_>, _>>().with_context(|| format!("cannot list {pattern:?}"))?;
    found.retain(|path| ends_in(path, endings) && path.is_file());
    ensure!(!found.is_empty(), "{pattern:?} matches no file that ends in {}", endings.join(", "));
    Ok(found)
}

/// Returns the images in a folder, by name.
pub fn images_in(folder: &Path) -> Result<Vec<PathBuf>> {
    files_in(folder, &IMAGES)
        .with_context(|| format!("cannot list {}; give a folder with images", folder.display()))
}

/// Returns the names of these inputs' pictures, without an extension. The name is the file's if no other input has it,
/// or else its whole path, with a number if another name equals it. No name overwrites another's picture or its
/// pictures `NAME-INDEX`, also where the file system ignores case.
pub fn picture_names(inputs: &[PathBuf]) -> Vec<String> {
    let stems: Vec<String> = inputs
        .iter()
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let mut times = BTreeMap::new();
    for stem in &stems {
        *times.entry(stem.to_lowercase()).or_insert(0) += 1;
    }
    let mut taken = BTreeSet::new();
    let mut name = |(path, stem): (&PathBuf, &String)| {
        let own = (times[&stem.to_lowercase()] == 1).then(|| stem.clone());
        let whole = whole_name(path);
        let numbered = (2..).map(|number| format!("{whole}_{number}"));
        let mut names = own.into_iter().chain([whole.clone()]).chain(numbered);
        let free = names.find(|name| is_free(&name.to_lowercase(), &taken)).unwrap_or(whole.clone());
        taken.insert(free.to_lowercase());
        free
    };
    inputs.iter().zip(&stems).map(&mut name).collect()
}

/// Returns the path as one name, its parts joined by underscores.
fn whole_name(path: &Path) -> String {
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part.to_string_lossy().into_owned()),
        Component::ParentDir => Some("..".to_owned()),
        _ => None,
    });
    parts.collect::<Vec<_>>().join("_")
}

/// Returns `true` if neither `name` nor a `NAME-INDEX` of it collides with one of the `taken` names or their
/// `NAME-INDEX`.
fn is_free(name: &str, taken: &BTreeSet<String>) -> bool {
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let numbered = format!("{name}-");
    let is_numbered = |other: &String| other.strip_prefix(&numbered).is_some_and(is_index);
    let after = name.rsplit_once('-').filter(|(_, index)| is_index(index));
    !taken.contains(name)
        && !after.is_some_and(|(first, _)| taken.contains(first))
        && !taken.range(numbered.clone()..).take_while(|other| other.starts_with(&numbered)).any(is_numbered)
}

/// Folder for pictures, in which no input is overwritten.
#[derive(Debug)]
pub struct PictureFolder<'a> {
    folder: &'a Path,
    /// Canonical paths of the inputs.
    inputs: BTreeSet<PathBuf>,
}

impl<'a> PictureFolder<'a> {
    /// Creates the folder.
    ///
    /// # Errors
    /// If a picture would overwrite an input.
    pub fn new(folder: &'a Path, inputs: &[PathBuf]) -> Result<Self> {
        super::create_dir(folder)?;
        // Missing inputs are reported when they are read.
        let known = inputs.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let pictures = Self { folder, inputs: known };
        for name in picture_names(inputs) {
            pictures.place(&format!("{name}.png"))?;
        }
        Ok(pictures)
    }

    /// Returns the path of a file `name` in the folder.
    ///
    /// # Errors
    /// If that is an input.
    pub fn place(&self, name: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        let is_input = path.canonicalize().is_ok_and(|known| self.inputs.contains(&known));
        ensure!(!is_input, "{} is an input; choose another folder with --out", path.display());
        Ok(path)
    }

    /// Writes a picture as `NAME.png` and returns its path.
    pub fn write(&self, name: &str, picture: &Image) -> Result<PathBuf> {
        let path = self.place(&format!("{name}.png"))?;
        write_png(&path, picture)?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_patterns_stand_for_their_images() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("more/empty")).unwrap();
        for name in ["b.PNG", "a.jpeg", "notes.txt", "c.WebP", "clip.MP4", "more/d.bmp", "[1].png"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let here = |name: &str| dir.path().join(name);
        let files = |names: &[&str]| image_files(&names.iter().map(|name| here(name)).collect::<Vec<_>>());
        let found = |names: &[&str]| files(names).unwrap();
        let expected = |names: &[&str]| names.iter().map(|name| here(name)).collect::<Vec<_>>();
        // Files given by name are taken whatever their extension, and files given twice are taken once.
        assert_eq!(
            found(&["x.bmp", "", "a.jpeg"]),
            expected(&["x.bmp", "[1].png", "a.jpeg", "b.PNG", "c.WebP"])
        );
        assert_eq!(found(&["*.?e*"]), expected(&["c.WebP"]));
        assert_eq!(found(&["**/*.[bj]*"]), expected(&["a.jpeg", "more/d.bmp"]));
        assert_eq!(found(&["[1].png"]), expected(&["[1].png"]));
        let both = image_and_video_files(&[here("c*")]).unwrap();
        assert_eq!(both, expected(&["c.WebP", "clip.MP4"]));
        assert!(is_video(&both[1]) && !is_video(&both[0]));
        let refused = |name: &str| format!("{:#}", files(&[name]).unwrap_err());
        assert!(refused("more/empty").contains("has no image"));
        assert!(refused("*.txt").contains("matches no file that ends in bmp, jpeg"));
        assert!(refused("a[").contains("is no pattern"));
    }

    #[test]
    fn no_picture_has_the_name_of_another() {
        let names = |paths: &[&str]| picture_names(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/x.jpg", "b/y.jpg"]), ["x", "y"]);
        assert_eq!(names(&["d1/x.jpg", "d2/x.jpg", "/d2/z.png"]), ["d1_x.jpg", "d2_x.jpg", "z"]);
        assert_eq!(names(&["x.jpg", "x.png"]), ["x.jpg", "x.png"]);
        // This holds on file systems that ignore case.
        assert_eq!(names(&["IMG.jpg", "img.JPG", "Img.jpg"]), ["IMG.jpg", "img.JPG_2", "Img.jpg_3"]);
        // `x-0.png` may be a density of x.
        assert_eq!(names(&["x.jpg", "a/x-0.jpg", "x-y.jpg"]), ["x", "a_x-0.jpg", "x-y"]);
        assert_eq!(names(&["a/X-12.jpg", "a/x.jpg"]), ["X-12", "a_x.jpg"]);
        assert_eq!(
            names(&["a_b/c.jpg", "a/b_c.jpg", "d/c.jpg", "e/b_c.jpg"]),
            ["a_b_c.jpg", "a_b_c.jpg_2", "d_c.jpg", "e_b_c.jpg"]
        );
    }

    #[test]
    fn an_input_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let [input, video] = ["x.png", "clip.mp4"].map(|name| dir.path().join(name));
        for path in [&input, &video] {
            std::fs::write(path, "mine").unwrap();
        }
        let image = Image::filled(2, 2, [0; 3]).unwrap();
        let refused = |error: anyhow::Error| assert!(error.to_string().contains("is an input"), "{error}");
        refused(PictureFolder::new(dir.path(), std::slice::from_ref(&input)).unwrap_err());
        let pictures = PictureFolder::new(dir.path(), &[video]).unwrap();
        refused(pictures.place("clip.mp4").unwrap_err());
        assert_eq!(pictures.write("y", &image).unwrap(), dir.path().join("y.png"));
        assert_eq!(std::fs::read(&input).unwrap(), b"mine");
    }
}
