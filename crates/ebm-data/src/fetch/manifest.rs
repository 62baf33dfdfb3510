//! What there is to fetch, from where, and how it is recognised.

use std::path::Path;

use serde::Deserialize;

use super::download::allowed;
use super::error::{Error, Result};
use super::hash::{Pin, is_hex};
use super::hub::HubModel;
use crate::files::{read_settings, stays_inside};

/// A dataset or a set of weights. Read from `datasets/<name>.toml` or `weights/<name>.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// What `ebm data get` calls it; the manifest's file is named the same.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// The publisher's page.
    pub page: String,
    /// Under which terms it may be used.
    pub licence: String,
    /// What to cite.
    pub citation: String,
    /// The files, those of lists too.
    #[serde(rename = "file", default)]
    pub files: Vec<Entry>,
    /// Lists of files; none once the manifest is read.
    #[serde(rename = "list", default)]
    lists: Vec<List>,
}

/// Files at one address, as a list names them that `sha256sum` wrote: 64 hexadecimal digits, two spaces, a name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The list's file, beside the manifest.
    sums: String,
    /// Where the files go: the folder that the names are relative to.
    path: String,
    /// Where they are: the address that the names are relative to.
    url: String,
}

impl List {
    /// The files, if the list's `text` is one.
    fn entries(&self, text: &str) -> std::result::Result<Vec<Entry>, String> {
        let entry = |(number, line): (usize, &str)| {
            let wrong = || format!("{}, line {}: write a hash, two spaces and a name", self.sums, number + 1);
            let (sha256, name) = line.split_once("  ").ok_or_else(wrong)?;
            Ok(Entry {
                path: format!("{}/{name}", self.path),
                urls: vec![format!("{}/{name}", self.url)],
                sha256: Some(sha256.to_owned()),
                ..Entry::default()
            })
        };
        text.lines().enumerate().map(entry).collect()
    }
}

/// One file, or one folder that is put there by hand.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Where it goes, relative to the folder of datasets or of weights.
    pub path: String,
    /// Where it is; tried in this order.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Where it is in the Hugging Face Hub, in place of addresses.
    pub hub: Option<HubModel>,
    /// Without an address: what to fetch from the page and what to do with it, as an instruction.
    pub by_hand: Option<String>,
    /// Which of the program's own files it is, in place of addresses.
    pub embedded: Option<String>,
    /// In bytes, if published.
    pub size: Option<u64>,
    /// 64 hexadecimal digits, if published.
    pub sha256: Option<String>,
    /// The first digits, where only they are published.
    pub sha256_prefix: Option<String>,
    /// Of a folder: how many files it holds at least.
    pub entries: Option<u64>,
}

impl Entry {
    /// What is known of its hash.
    pub fn pin(&self) -> Pin {
        Pin(self.sha256.as_ref().or(self.sha256_prefix.as_ref()).cloned().unwrap_or_default())
    }

    /// What is wrong with it.
    fn complaint(&self) -> Option<&'static str> {
        let ways =
            [!self.urls.is_empty(), self.hub.is_some(), self.by_hand.is_some(), self.embedded.is_some()];
        let mut names = self.hub.iter().flat_map(|hub| [&hub.repo, &hub.revision, &hub.file]);
        let hex = |text: &Option<String>, digits: std::ops::RangeInclusive<usize>| {
            text.as_ref().is_none_or(|text| digits.contains(&text.len()) && is_hex(text, text.len()))
        };
        let is_file = self.size.is_some() || !self.pin().0.is_empty() || self.by_hand.is_none();
        let rules = [
            (stays_inside(&self.path), "path must be relative and stay in its folder"),
            (ways.iter().filter(|way| **way).count() == 1, "needs one of urls, hub, by_hand and embedded"),
            (
                self.embedded.iter().all(|name| embedded::content(name).is_some()),
                "the program has no such file",
            ),
            (names.all(|name| stays_inside(name)), "hub has what is no name in the Hub"),
            (self.urls.iter().all(|url| allowed(url).is_some()), "urls: only https, or http on this machine"),
            (hex(&self.sha256, 64..=64), "sha256 must be 64 lower-case hexadecimal digits"),
            (hex(&self.sha256_prefix, 8..=63), "sha256_prefix must be 8 to 63 lower-case hexadecimal digits"),
            (
                self.entries.is_none() || !is_file,
                "entries is for a folder, which has no address, size or hash",
            ),
        ];
        rules.into_iter().find_map(|(right, complaint)| (!right).then_some(complaint))
    }
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Error::Io`], and those of [`Manifest::parse`].
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_settings(path).map_err(|error| match error {
            crate::Error::Io { action, path, source } => Error::Io { action, path, source },
            other => Error::Wrong(path.into(), other.to_string()),
        })?;
        Self::parse(path, &text)
    }

    /// Reads the text of a manifest; `path` is for messages, its stem is the name that the text must have,
    /// and lists are beside it.
    ///
    /// # Errors
    /// [`Error::Wrong`] with the place if the text is no manifest.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        Self::with_lists(path, text, &|sums| {
            let beside =
                path.parent().filter(|_| stays_inside(sums)).ok_or("sums must stay in its folder")?;
            read_settings(&beside.join(sums)).map_err(|error| error.to_string())
        })
    }

    /// The same with lists by name.
    fn with_lists(
        path: &Path,
        text: &str,
        list: &dyn Fn(&str) -> std::result::Result<String, String>,
    ) -> Result<Self> {
        let invalid = |detail: String| Error::Wrong(path.into(), detail);
        let mut manifest: Self = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
        for own in std::mem::take(&mut manifest.lists) {
            let entries = list(&own.sums).and_then(|text| own.entries(&text));
            manifest.files.extend(entries.map_err(invalid)?);
        }
        if path.file_stem().is_none_or(|stem| stem != manifest.name.as_str()) {
            return Err(invalid(format!("the name {} must be that of the file", manifest.name)));
        }
        if let Some((entry, complaint)) =
            manifest.files.iter().find_map(|entry| Some((entry, entry.complaint()?)))
        {
            return Err(invalid(format!("{}: {complaint}", entry.path)));
        }
        Ok(manifest)
    }
}

/// The manifests that come with the program.
pub mod embedded {
    use super::{Manifest, Path, Result};

    macro_rules! texts {
        ($folder:literal: $($name:literal),*) => {
            &[$(($name, include_str!(concat!("../../embedded/", $folder, "/", $name, ".toml")))),*]
        };
    }

    /// Name and text of those in `datasets/`.
    pub const DATASETS: &[(&str, &str)] = texts!("datasets":
        "coco", "utkface", "biwi", "lasot", "got10k", "trackingnet", "uav123", "otb", "coco-person");

    /// Name and text of those in `weights/`.
    pub const WEIGHTS: &[(&str, &str)] =
        texts!("weights": "resnet18", "resnet50", "fasterrcnn", "hub-resnet50");

    macro_rules! contents {
        ($($name:literal),*) => { &[$(($name, include_bytes!(concat!("../../embedded/", $name)))),*] };
    }

    /// The files that they name: lists, and annotations as gzip makes them small.
    const CONTENTS: &[(&str, &[u8])] = contents!(
        "coco-person/images.sha256",
        "coco-person/train_many.json.gz",
        "coco-person/train_single.json.gz",
        "coco-person/val.json.gz",
        "coco-person/test.json.gz"
    );

    /// The program's own file of this name.
    pub(in crate::fetch) fn content(name: &str) -> Option<&'static [u8]> {
        CONTENTS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
    }

    /// The manifest of this name in a list.
    ///
    /// # Errors
    /// Those of [`Manifest::parse`].
    pub fn find(list: &[(&str, &str)], name: &str) -> Result<Option<Manifest>> {
        let Some((name, text)) = list.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        let own = |sums: &str| {
            let text = content(sums).and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.map(str::to_owned).ok_or_else(|| format!("the program has no list {sums}"))
        };
        Manifest::with_lists(Path::new(&format!("{name}.toml")), text, &own).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(file: &str) -> Result<Manifest> {
        let head = "name = \"a\"\ntitle = \"A\"\npage = \"p\"\nlicence = \"l\"\ncitation = \"c\"\n[[file]]\n";
        Manifest::parse(Path::new("a.toml"), &format!("{head}{file}"))
    }

    #[test]
    fn every_embedded_manifest_is_read() {
        for (name, text) in embedded::DATASETS.iter().chain(embedded::WEIGHTS) {
            let manifest = embedded::find(&[(name, text)], name).unwrap().unwrap();
            assert!(!manifest.files.is_empty() && !manifest.licence.is_empty(), "{name}");
        }
        let person = embedded::find(embedded::DATASETS, "coco-person").unwrap().unwrap();
        let (first, last) = (&person.files[0], &person.files[person.files.len() - 1]);
        assert_eq!((person.files.len(), first.path.as_str()), (2693 + 4, "coco-person/train_many.json"));
        assert_eq!(last.path, "coco-person/images/000000581357.jpg");
        assert_eq!(last.urls, ["https://s3.amazonaws.com/images.cocodataset.org/val2017/000000581357.jpg"]);
        assert!(embedded::find(embedded::DATASETS, "coco").unwrap().is_some());
        assert!(embedded::find(embedded::DATASETS, "resnet18").unwrap().is_none());
    }

    #[test]
    fn the_best_pin_counts() {
        let hash = "a".repeat(64);
        let file = format!("path = \"x\"\nurls = [\"https://a/x\"]\nsha256 = \"{hash}\"");
        assert_eq!(parse(&file).unwrap().files[0].pin(), Pin(hash));
        let file = "path = \"x\"\nurls = [\"https://a/x\"]\nsha256_prefix = \"0123abcd\"";
        let pin = parse(file).unwrap().files[0].pin();
        assert!(pin.admits(&format!("0123abcd{}", "0".repeat(56))) && !pin.admits(&"0".repeat(64)));
        assert_eq!(parse("path = \"x\"\nby_hand = \"do\"").unwrap().files[0].pin(), Pin::default());
    }

    #[test]
    fn a_wrong_manifest_is_refused_with_the_place() {
        for (file, complaint) in [
            ("path = \"../x\"\nby_hand = \"do\"", "stay in its folder"),
            ("path = \"/x\"\nby_hand = \"do\"", "stay in its folder"),
            ("path = \"x\"", "one of urls, hub, by_hand and embedded"),
            (
                "path = \"x\"\nurls = [\"https://a\"]\nby_hand = \"do\"",
                "one of urls, hub, by_hand and embedded",
            ),
            ("path = \"x\"\nembedded = \"y\"", "the program has no such file"),
            (
                "path = \"x\"\nby_hand = \"do\"\n[[list]]\nsums = \"../y\"\npath = \"z\"\nurl = \"u\"",
                "sums must stay",
            ),
            ("path = \"x\"\nurls = [\"http://a.org/x\"]", "only https"),
            ("path = \"x\"\nhub = { repo = \"a/../b\", file = \"c\" }", "no name in the Hub"),
            ("path = \"x\"\nby_hand = \"do\"\nsha256 = \"abc\"", "64 lower-case"),
            ("path = \"x\"\nby_hand = \"do\"\nsha256_prefix = \"abc\"", "8 to 63"),
            ("path = \"x\"\nby_hand = \"do\"\nsize = 3\nentries = 4", "entries is for a folder"),
            ("path = \"x\"\nby_hand = \"do\"\nsize = -3", "size"),
            ("path = \"x\"\nby_hand = \"do\"\nsiez = 3", "siez"),
        ] {
            let error = parse(file).unwrap_err().to_string();
            assert!(error.starts_with("a.toml: ") && error.contains(complaint), "{error}");
        }
        let other = Manifest::parse(Path::new("b.toml"), "name = \"a\"").unwrap_err();
        assert!(matches!(other, Error::Wrong(..)));
    }
}
