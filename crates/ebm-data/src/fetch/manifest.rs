//! Manifests: lists of the files to fetch, with their addresses and hashes.

use std::path::Path;

use serde::Deserialize;

use super::is_hex;
use crate::error::{Error, Result};
use crate::files::{read_settings, stays_inside};

/// Description of a dataset or a set of weights, read from `datasets/<name>.toml` or `weights/<name>.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Name for `ebm data get`, also the name of the manifest's file.
    pub name: String,
    /// Title for display.
    pub title: String,
    /// Address of the publisher's page.
    pub page: String,
    /// Terms of use.
    pub licence: String,
    /// Publication to cite.
    pub citation: String,
    /// All files, including the files of lists.
    #[serde(rename = "file", default)]
    pub files: Vec<Entry>,
    /// Lists of files; empty after the manifest is read.
    #[serde(rename = "list", default)]
    lists: Vec<List>,
}

/// List of files at one address, as `sha256sum` writes it: 64 hexadecimal digits, two spaces, a name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Name of the list's file, beside the manifest.
    sums: String,
    /// Local folder that the names are relative to.
    path: String,
    /// Address that the names are relative to.
    url: String,
}

/// File to fetch, or file or folder that the user puts in its place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Path of the file, relative to the folder of datasets or of weights.
    pub path: String,
    /// Address of the file.
    pub url: Option<String>,
    /// Instruction for the user, in place of an address: the file to fetch from the page, and the next steps.
    pub by_hand: Option<String>,
    /// Name of a file that is part of the program, in place of an address.
    pub embedded: Option<String>,
    /// Size in bytes, if published.
    pub size: Option<u64>,
    /// SHA-256 in 64 hexadecimal digits, or their beginning, if published.
    #[serde(default)]
    pub sha256: String,
    /// Smallest number of files, for a folder.
    pub entries: Option<u64>,
}

impl Entry {
    /// Returns a description of the first invalid field.
    fn complaint(&self) -> Option<&'static str> {
        let ways = [&self.url, &self.by_hand, &self.embedded].into_iter().flatten().count();
        let hash = self.sha256.as_str();
        if !stays_inside(&self.path) {
            Some("path must be relative and stay in its folder")
        } else if ways != 1 {
            Some("needs one of url, by_hand and embedded")
        } else if !(hash.is_empty() || (8..=64).contains(&hash.len()) && is_hex(hash, hash.len())) {
            Some("sha256 must be 64 lower-case hexadecimal digits, or the first 8 or more of them")
        } else {
            None
        }
    }
}

impl Manifest {
    /// Reads a manifest and the lists beside it.
    ///
    /// # Errors
    /// [`Error::Data`] with the line for an invalid manifest, and the errors of [`read_settings`].
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(path, &read_settings(path)?, &|sums| {
            let beside = path.parent().filter(|_| stays_inside(sums));
            read_settings(&beside?.join(sums)).ok()
        })
    }

    fn parse(path: &Path, text: &str, list: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let invalid = |detail: String| Error::Data(path.into(), detail);
        let mut manifest: Self = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        for List { sums, path, url } in std::mem::take(&mut manifest.lists) {
            let text = list(&sums).ok_or_else(|| invalid(format!("there is no list {sums} beside it")))?;
            for (number, line) in text.lines().enumerate() {
                let wrong = || format!("{sums}, line {}: write a hash, two spaces and a name", number + 1);
                let (sha256, name) = line.split_once("  ").ok_or_else(|| invalid(wrong()))?;
                let (path, url) = (format!("{path}/{name}"), Some(format!("{url}/{name}")));
                manifest.files.push(Entry { path, url, sha256: sha256.into(), ..Entry::default() });
            }
        }
        let wrong = manifest.files.iter().find_map(|entry| Some((entry, entry.complaint()?)));
        match wrong {
            Some((entry, complaint)) => Err(invalid(format!("{}: {complaint}", entry.path))),
            None => Ok(manifest),
        }
    }
}

/// Manifests that are part of the program.
pub mod embedded {
    use super::{Manifest, Path, Result};

    macro_rules! texts {
        ($folder:literal: $($name:literal),*) => {
            &[$(($name, include_str!(concat!("../../embedded/", $folder, "/", $name, ".toml")))),*]
        };
    }

    /// Names and texts of the manifests in `datasets/`.
    pub const DATASETS: &[(&str, &str)] = texts!("datasets":
        "coco", "utkface", "biwi", "lasot", "got10k", "trackingnet", "uav123", "otb", "coco-person");

    /// Names and texts of the manifests in `weights/`.
    pub const WEIGHTS: &[(&str, &str)] =
        texts!("weights": "resnet18", "resnet50", "fasterrcnn", "hub-resnet50");

    macro_rules! contents {
        ($($name:literal),*) => { &[$(($name, include_bytes!(concat!("../../embedded/", $name)))),*] };
    }

    /// Files that the manifests name: lists, and annotations compressed by gzip.
    const CONTENTS: &[(&str, &[u8])] = contents!(
        "coco-person/images.sha256",
        "coco-person/train_many.json.gz",
        "coco-person/train_single.json.gz",
        "coco-person/val.json.gz",
        "coco-person/test.json.gz"
    );

    /// Returns the program's own file `name`.
    pub(in crate::fetch) fn content(name: &str) -> Option<&'static [u8]> {
        CONTENTS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
    }

    /// Returns the manifest `name` of a list.
    ///
    /// # Errors
    /// The errors of [`Manifest::read`].
    pub fn find(list: &[(&str, &str)], name: &str) -> Result<Option<Manifest>> {
        let Some((name, text)) = list.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        let own = |sums: &str| Some(std::str::from_utf8(content(sums)?).ok()?.to_owned());
        Manifest::parse(Path::new(&format!("{name}.toml")), text, &own).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(file: &str) -> Result<Manifest> {
        let head = "name = \"a\"\ntitle = \"A\"\npage = \"p\"\nlicence = \"l\"\ncitation = \"c\"\n[[file]]\n";
        Manifest::parse(Path::new("a.toml"), &format!("{head}{file}"), &|_| None)
    }

    #[test]
    fn every_embedded_manifest_is_read() {
        for (name, text) in embedded::DATASETS.iter().chain(embedded::WEIGHTS) {
            let manifest = embedded::find(&[(name, text)], name).unwrap().unwrap();
            assert!(!manifest.files.is_empty() && !manifest.licence.is_empty(), "{name}");
            assert_eq!(manifest.name, *name);
            for entry in &manifest.files {
                let own = entry.embedded.iter().all(|name| embedded::content(name).is_some());
                assert!(own && entry.url.iter().all(|url| url.starts_with("https://")), "{entry:?}");
            }
        }
        let person = embedded::find(embedded::DATASETS, "coco-person").unwrap().unwrap();
        let (first, last) = (&person.files[0], &person.files[person.files.len() - 1]);
        assert_eq!((person.files.len(), first.path.as_str()), (2693 + 4, "coco-person/train_many.json"));
        assert_eq!(last.path, "coco-person/images/000000581357.jpg");
        let url = "https://s3.amazonaws.com/images.cocodataset.org/val2017/000000581357.jpg";
        assert_eq!(last.url.as_deref(), Some(url));
        assert!(embedded::find(embedded::DATASETS, "coco").unwrap().is_some());
        assert!(embedded::find(embedded::DATASETS, "resnet18").unwrap().is_none());
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_the_place() {
        for (file, complaint) in [
            ("path = \"../x\"\nby_hand = \"do\"", "stay in its folder"),
            ("path = \"/x\"\nby_hand = \"do\"", "stay in its folder"),
            ("path = \"x\"", "one of url, by_hand and embedded"),
            ("path = \"x\"\nurl = \"https://a\"\nby_hand = \"do\"", "one of url, by_hand and embedded"),
            (
                "path = \"x\"\nby_hand = \"do\"\n[[list]]\nsums = \"../y\"\npath = \"z\"\nurl = \"u\"",
                "no list ../y beside it",
            ),
            ("path = \"x\"\nby_hand = \"do\"\nsha256 = \"abc\"", "64 lower-case"),
            ("path = \"x\"\nby_hand = \"do\"\nsha256 = \"ABCDABCD\"", "64 lower-case"),
            ("path = \"x\"\nby_hand = \"do\"\nsize = -3", "size"),
            ("path = \"x\"\nby_hand = \"do\"\nsiez = 3", "siez"),
        ] {
            let error = parse(file).unwrap_err().to_string();
            assert!(error.starts_with("a.toml: ") && error.contains(complaint), "{error}");
        }
        assert_eq!(parse("path = \"x\"\nby_hand = \"do\"\nsha256 = \"abcdabcd\"").unwrap().files.len(), 1);
    }
}
