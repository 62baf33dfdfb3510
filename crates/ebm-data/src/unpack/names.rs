//! Which names an entry may have.

use std::collections::HashMap;
use std::path::PathBuf;

use super::ArchiveFault;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

/// The names given so far, by their form without case.
#[derive(Default)]
pub(super) struct Names {
    seen: HashMap<String, (String, Kind)>,
}

/// Why a name is refused.
pub(super) type Refusal = (ArchiveFault, String);

impl Names {
    /// Names of which one must not be given: the marker's.
    pub fn with(reserved: &str) -> Self {
        let seen = HashMap::from([(reserved.to_lowercase(), (reserved.to_owned(), Kind::File))]);
        Self { seen }
    }

    /// The path below the target of a file called `name`, which must be new.
    pub fn file(&mut self, name: &[u8]) -> Result<PathBuf, Refusal> {
        let parts = components(name)?;
        if parts.is_empty() || name.ends_with(b"/") {
            return Err(refuse("is the name of a folder"));
        }
        self.insert(&parts, Kind::File)
    }

    /// The path below the target of a folder called `name`, which may have been given before; empty for the target itself.
    pub fn folder(&mut self, name: &[u8]) -> Result<PathBuf, Refusal> {
        let parts = components(name)?;
        if parts.is_empty() {
            return Ok(PathBuf::new());
        }
        self.insert(&parts, Kind::Folder)
    }

    fn insert(&mut self, parts: &[&str], kind: Kind) -> Result<PathBuf, Refusal> {
        let mut path = String::new();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                path.push('/');
            }
            path.push_str(part);
            let last = index + 1 == parts.len();
            let kind = if last { kind } else { Kind::Folder };
            match self.seen.get(&path.to_lowercase()) {
                None => {
                    self.seen.insert(path.to_lowercase(), (path.clone(), kind));
                }
                Some((same, Kind::Folder)) if *same == path && kind == Kind::Folder => {}
                Some((other, _)) => {
                    return Err((
                        ArchiveFault::Duplicate,
                        format!("{path:?} and {other:?} would be one file"),
                    ));
                }
            }
        }
        Ok(parts.iter().collect())
    }
}

/// The components of a relative name; `.` and empty ones do not count.
fn components(name: &[u8]) -> Result<Vec<&str>, Refusal> {
    let name = std::str::from_utf8(name).map_err(|_| refuse("is no UTF-8 text"))?;
    if name.contains('\0') {
        return Err(refuse("holds a NUL"));
    }
    if name.contains('\\') {
        return Err(refuse("holds a backslash"));
    }
    if name.starts_with('/') {
        return Err(refuse("is absolute"));
    }
    let parts: Vec<&str> = name.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(refuse("leads out of its folder"));
    }
    let has_drive =
        |part: &&str| matches!(part.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if parts.iter().any(has_drive) {
        return Err(refuse("holds a drive letter"));
    }
    Ok(parts)
}

fn refuse(why: &str) -> Refusal {
    (ArchiveFault::UnsafeName, format!("its name {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn fault(names: &mut Names, name: &[u8]) -> ArchiveFault {
        names.file(name).unwrap_err().0
    }

    #[test]
    fn plain_names_are_normalised() {
        let mut names = Names::default();
        for (name, path) in [("a.txt", "a.txt"), ("./b/c.txt", "b/c.txt"), ("b//d e/ü..txt", "b/d e/ü..txt")]
        {
            assert_eq!(names.file(name.as_bytes()).unwrap(), Path::new(path));
        }
        assert_eq!(names.folder(b"./").unwrap(), Path::new(""));
        assert_eq!(names.folder(b"b/").unwrap(), Path::new("b"));
        assert_eq!(names.folder(b"b/x/").unwrap(), Path::new("b/x"));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
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
        ] {
            assert_eq!(fault(&mut Names::default(), name), ArchiveFault::UnsafeName, "{name:?}");
        }
    }

    #[test]
    fn a_name_is_given_once_whatever_its_case() {
        let mut names = Names::with(".marker");
        names.file(b"A/b.txt").unwrap();
        names.file(b"A/c.txt").unwrap();
        names.folder(b"A").unwrap();
        for name in [&b"A/b.txt"[..], b"A/B.TXT", b"a/d.txt", b"A", b"A/b.txt/e", b".Marker"] {
            assert_eq!(fault(&mut names, name), ArchiveFault::Duplicate, "{name:?}");
        }
        assert!(names.folder(b"A/b.txt").is_err() && names.folder(b"a").is_err());
    }
}
