//! Which names an entry may have.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;

use super::ArchiveFault;
use super::budget::{Budget, Excess, MAX_DEPTH, MAX_NAME, MAX_PART};

/// What a name is given to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file, which must be new.
    File,
    /// A folder, which may have been given before.
    Folder,
}

/// A file or folder that has been given: its number, and its name where that is not without case.
struct Known {
    number: usize,
    kind: Kind,
    spelling: Option<Box<str>>,
}

/// The names given so far: of each file and folder by the number of its folder, 0 for the target, and its
/// name without case.
pub(super) struct Names {
    known: HashMap<(usize, Box<str>), Known>,
    budget: Budget,
    /// Bytes of all names.
    bytes: u64,
    /// A name that the program itself gives, in lower case, and in how many folders that file lies.
    reserved: (String, usize),
}

/// Where an entry goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Below the target; empty for the target itself.
    pub path: PathBuf,
    /// Whether folders of the path are new.
    pub folders: bool,
}

impl Names {
    /// Names of which one must not be given: `reserved`, of a file `depth` folders deep.
    pub fn new(budget: Budget, reserved: &str, depth: usize) -> Self {
        Self { known: HashMap::new(), budget, bytes: 0, reserved: (reserved.to_lowercase(), depth) }
    }

    /// The place of an entry called `name`, within the budget.
    pub fn give(&mut self, name: &[u8], kind: Kind) -> Result<Place, Excess> {
        let parts = components(name)?;
        if kind == Kind::File && (parts.is_empty() || name.ends_with(b"/")) {
            return Err(unsafe_name("is the name of a folder"));
        }
        if parts.get(self.reserved.1).is_some_and(|part| part.to_lowercase() == self.reserved.0) {
            let detail =
                format!("{} is the name of the file that tells where a folder came from", self.reserved.0);
            return Err((ArchiveFault::Reserved, detail));
        }
        let (mut folder, mut folders) = (0, false);
        for (index, part) in parts.iter().enumerate() {
            let kind = if index + 1 == parts.len() { kind } else { Kind::Folder };
            let (number, new) =
                self.insert(folder, part, kind).map_err(|fault| at(fault, &parts[..=index]))?;
            folders |= new && kind == Kind::Folder;
            folder = number;
        }
        Ok(Place { path: parts.iter().collect(), folders })
    }

    /// The number of a file or folder in `folder`, and whether it is new.
    fn insert(&mut self, folder: usize, part: &str, kind: Kind) -> Result<(usize, bool), Excess> {
        let (number, lower) = (self.known.len() + 1, part.to_lowercase());
        let spelling = (lower != part).then(|| part.into());
        match self.known.entry((folder, lower.into())) {
            Entry::Vacant(vacant) => {
                self.budget.check_entries(number as u64)?;
                self.bytes += part.len() as u64;
                self.budget.check_names(self.bytes)?;
                vacant.insert(Known { number, kind, spelling });
                Ok((number, true))
            }
            Entry::Occupied(known) if known.get().spelling != spelling => {
                let known = known.get().spelling.as_deref().unwrap_or(&known.key().1);
                Err((ArchiveFault::Duplicate, format!("{part:?} and {known:?} would be one file")))
            }
            Entry::Occupied(known) => match (known.get().kind, kind) {
                (Kind::Folder, Kind::Folder) => Ok((known.get().number, false)),
                _ => Err((ArchiveFault::Duplicate, format!("{part:?} occurs twice"))),
            },
        }
    }
}

/// A fault with the path where it lies.
fn at((fault, detail): Excess, parts: &[&str]) -> Excess {
    match parts.split_last() {
        Some((_, folders)) if !folders.is_empty() => (fault, format!("{detail} in {:?}", folders.join("/"))),
        _ => (fault, detail),
    }
}

/// The components of a relative name; `.` and empty ones do not count.
fn components(name: &[u8]) -> Result<Vec<&str>, Excess> {
    if name.len() as u64 > MAX_NAME {
        let detail = format!("a name of {} bytes exceeds the limit of {MAX_NAME}", name.len());
        return Err((ArchiveFault::TooLarge, detail));
    }
    let name = std::str::from_utf8(name).map_err(|_| unsafe_name("is no UTF-8 text"))?;
    if name.contains('\0') {
        return Err(unsafe_name("holds a NUL"));
    }
    if name.contains('\\') {
        return Err(unsafe_name("holds a backslash"));
    }
    if name.starts_with('/') {
        return Err(unsafe_name("is absolute"));
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(unsafe_name("leads out of its folder"));
    }
    let has_drive =
        |part: &&str| matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if parts.iter().any(has_drive) {
        return Err(unsafe_name("holds a drive letter"));
    }
    if parts.len() > MAX_DEPTH {
        return Err(unsafe_name(&format!("leads through more than {MAX_DEPTH} folders")));
    }
    if parts.iter().any(|part| part.len() > MAX_PART) {
        return Err(unsafe_name(&format!("has a part of more than {MAX_PART} bytes")));
    }
    Ok(parts)
}

fn unsafe_name(why: &str) -> Excess {
    (ArchiveFault::UnsafeName, format!("its name {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn names(max_entries: usize) -> Names {
        let budget = Budget { max_entries, max_entry_bytes: 0, max_total_bytes: 0 };
        Names::new(budget, ".marker", 0)
    }

    fn fault(names: &mut Names, name: &[u8]) -> ArchiveFault {
        names.give(name, Kind::File).unwrap_err().0
    }

    fn place(path: &str, folders: bool) -> Place {
        Place { path: Path::new(path).to_owned(), folders }
    }

    #[test]
    fn plain_names_are_normalised() {
        let mut names = names(9);
        for (name, path, folders) in [
            ("a.txt", "a.txt", false),
            ("./b/c.txt", "b/c.txt", true),
            ("b//d e/ü..txt", "b/d e/ü..txt", true),
        ] {
            assert_eq!(names.give(name.as_bytes(), Kind::File).unwrap(), place(path, folders));
        }
        assert_eq!(names.give(b"./", Kind::Folder).unwrap(), place("", false));
        assert_eq!(names.give(b"b/", Kind::Folder).unwrap(), place("b", false));
        assert_eq!(names.give(b"b/x/", Kind::Folder).unwrap(), place("b/x", true));
        assert_eq!(names.give(b"b/f", Kind::File).unwrap(), place("b/f", false));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (deep, long) = ("a/".repeat(MAX_DEPTH) + "f", "a".repeat(MAX_PART + 1));
        for name in [
            &b"../x"[..],
            b"a/../../x",
            b"a/..",
            b"/x",
            b"//x",
            b"a\\b",
            b"..\\x",
            b"C:x",
            b"c:/x",
            b"a/C:/x",
            b"a\0b",
            b"\xff",
            b"",
            b".",
            b"a/",
            deep.as_bytes(),
            long.as_bytes(),
        ] {
            assert_eq!(fault(&mut names(9), name), ArchiveFault::UnsafeName, "{name:?}");
        }
        assert_eq!(fault(&mut names(9), "a/".repeat(30_000).as_bytes()), ArchiveFault::TooLarge);
    }

    #[test]
    fn a_name_is_given_once_whatever_its_case() {
        let mut names = names(9);
        names.give(b"A/b.txt", Kind::File).unwrap();
        names.give(b"A/c.txt", Kind::File).unwrap();
        names.give(b"A", Kind::Folder).unwrap();
        for name in [&b"A/b.txt"[..], b"A/B.TXT", b"a/d.txt", b"A", b"A/b.txt/e"] {
            assert_eq!(fault(&mut names, name), ArchiveFault::Duplicate, "{name:?}");
        }
        for name in [&b"A/b.txt"[..], b"a"] {
            assert!(names.give(name, Kind::Folder).is_err());
        }
    }

    #[test]
    fn the_marker_is_the_programs_own() {
        for (depth, reserved, free) in [(0, ".Marker", "a/.marker"), (1, "a/.MARKER", ".marker")] {
            let mut names = Names { reserved: (".marker".to_owned(), depth), ..names(9) };
            assert_eq!(fault(&mut names, reserved.as_bytes()), ArchiveFault::Reserved);
            assert_eq!(names.give(reserved.as_bytes(), Kind::Folder).unwrap_err().0, ArchiveFault::Reserved);
            names.give(free.as_bytes(), Kind::File).unwrap();
        }
    }

    #[test]
    fn folders_that_names_tell_of_count() {
        let mut names = names(4);
        names.give(b"a/b/c", Kind::File).unwrap();
        names.give(b"a/b", Kind::Folder).unwrap();
        assert_eq!(fault(&mut names, b"d/e"), ArchiveFault::TooManyEntries);
        names.bytes = 1 << 17;
        names.budget.max_entries = 9;
        assert_eq!(fault(&mut names, b"f"), ArchiveFault::TooLarge);
    }
}
