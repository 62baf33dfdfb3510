//! Python's pickles, protocols 2 to 5, as data: nothing is imported and nothing is called.
//!
//! candle has a reader of pickles too. It is not used: it cannot read integers of more than 8 bytes, with
//! which torch's older files begin, nor Python 2's strings; it copies an object whenever it is referred to
//! again; and on bytes that nobody checked it may panic or exhaust the stack. Here objects live in one arena and
//! refer to each other by index, so that sharing costs nothing and depth is no matter.

mod machine;

use std::borrow::Cow;

use machine::Machine;

/// The longest pickle that is read; that of a ResNet-50 takes 0.05 MB.
const MAX_BYTES: usize = 64 << 20;

/// An object's place in its [`Pickle`].
pub(super) type Id = usize;

/// A Python object, as far as files of weights need it.
#[derive(Debug)]
pub(super) enum Object<'a> {
    /// `None`, and what has no use here.
    Other,
    Bool(bool),
    Int(i128),
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    /// A tuple or list.
    Sequence(Vec<Id>),
    /// A dictionary of any kind.
    Dictionary(Vec<(Id, Id)>),
    /// A function or class by name.
    Global(Cow<'a, str>, Cow<'a, str>),
    /// What calling a global with arguments would give.
    Call {
        callable: Id,
        args: Id,
    },
    /// A reference to something outside the pickle.
    Persistent(Id),
}

/// The objects of one pickle.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    objects: Vec<Object<'a>>,
    root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads one pickle off the front of `bytes`.
    pub(super) fn read(bytes: &mut &'a [u8]) -> Result<Self, String> {
        let mut machine = Machine::default();
        let mut rest = bytes.get(..MAX_BYTES).unwrap_or(bytes);
        let length = rest.len();
        loop {
            if let Some(root) = machine.step(&mut rest)? {
                *bytes = &bytes[length - rest.len()..];
                return Ok(Self { objects: machine.into_objects(), root });
            }
        }
    }

    /// The object that was pickled.
    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// An object by its place.
    pub(super) fn get(&self, id: Id) -> &Object<'a> {
        self.objects.get(id).unwrap_or(&Object::Other)
    }

    /// The arguments of all references to something outside.
    pub(super) fn persistent(&self) -> impl Iterator<Item = &[Id]> {
        self.objects.iter().filter_map(|object| match object {
            Object::Persistent(id) => self.sequence(*id),
            _ => None,
        })
    }

    /// The elements of a tuple or list.
    pub(super) fn sequence(&self, id: Id) -> Option<&[Id]> {
        if let Object::Sequence(items) = self.get(id) { Some(items) } else { None }
    }

    /// The entries of a dictionary.
    pub(super) fn dictionary(&self, id: Id) -> Option<&[(Id, Id)]> {
        if let Object::Dictionary(entries) = self.get(id) { Some(entries) } else { None }
    }

    /// The value under `key` of a dictionary.
    pub(super) fn value(&self, dictionary: Id, key: &str) -> Option<Id> {
        let entries = self.dictionary(dictionary)?;
        // As in Python, the last one counts.
        entries.iter().rev().find(|(name, _)| self.text(*name) == Some(key)).map(|(_, value)| *value)
    }

    /// A string; Python 2 wrote it as bytes.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Object::Text(text) => Some(text),
            Object::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A whole number that is a size here.
    pub(super) fn size(&self, id: Id) -> Option<usize> {
        if let Object::Int(value) = self.get(id) { usize::try_from(*value).ok() } else { None }
    }

    /// Sizes in a tuple or list.
    pub(super) fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        self.sequence(id)?.iter().map(|&id| self.size(id)).collect()
    }

    /// Module, name and arguments of a call.
    pub(super) fn call(&self, id: Id) -> Option<(&str, &str, &[Id])> {
        let Object::Call { callable, args } = self.get(id) else { return None };
        let (module, name) = self.global(*callable)?;
        Some((module, name, self.sequence(*args)?))
    }

    /// Module and name of a global.
    pub(super) fn global(&self, id: Id) -> Option<(&str, &str)> {
        if let Object::Global(module, name) = self.get(id) { Some((module, name)) } else { None }
    }
}
