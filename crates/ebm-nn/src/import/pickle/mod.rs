//! Reader of Python's pickles, protocols 2 to 5, as data: nothing is imported and nothing is called.
//!
//! candle's reader of pickles is not used, because it cannot read integers of more than 8 bytes, with which
//! torch's older files begin, nor Python 2's strings. It copies an object for every reference, and unverified
//! bytes may make it panic or exhaust the stack. This reader keeps objects in one arena and refers to them by
//! index, so sharing costs nothing and depth has no limit.

mod machine;

use std::borrow::Cow;

use machine::Machine;

/// Size of the longest pickle that is read; the pickle of a ResNet-50 has 0.05 MB.
const MAX_BYTES: usize = 64 << 20;

/// Index of an object in its [`Pickle`].
pub(super) type Id = usize;

/// Python object, as far as files of weights need it.
#[derive(Debug)]
pub(super) enum Object<'a> {
    /// `None`, and objects without a use here.
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
    /// A call of a global with arguments.
    Call {
        callable: Id,
        args: Id,
    },
    /// A reference to something outside the pickle.
    Persistent(Id),
}

/// Objects of one pickle.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    objects: Vec<Object<'a>>,
    root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads one pickle from the start of `bytes` and removes it from them.
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

    /// Returns the pickled object.
    pub(super) fn root(&self) -> Id {
        self.root
    }

    /// Returns the object `id`.
    pub(super) fn get(&self, id: Id) -> &Object<'a> {
        self.objects.get(id).unwrap_or(&Object::Other)
    }

    /// Returns the arguments of all references to objects outside the pickle.
    pub(super) fn persistent(&self) -> impl Iterator<Item = &[Id]> {
        self.objects.iter().filter_map(|object| match object {
            Object::Persistent(id) => self.sequence(*id),
            _ => None,
        })
    }

    /// Returns the elements of a tuple or list.
    pub(super) fn sequence(&self, id: Id) -> Option<&[Id]> {
        if let Object::Sequence(items) = self.get(id) { Some(items) } else { None }
    }

    /// Returns the entries of a dictionary.
    pub(super) fn dictionary(&self, id: Id) -> Option<&[(Id, Id)]> {
        if let Object::Dictionary(entries) = self.get(id) { Some(entries) } else { None }
    }

    /// Returns the value under `key` of a dictionary.
    pub(super) fn value(&self, dictionary: Id, key: &str) -> Option<Id> {
        let entries = self.dictionary(dictionary)?;
        // The last entry counts, as in Python.
        entries.iter().rev().find(|(name, _)| self.text(*name) == Some(key)).map(|(_, value)| *value)
    }

    /// Returns a string; Python 2 wrote it as bytes.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        match self.get(id) {
            Object::Text(text) => Some(text),
            Object::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Returns a whole number as a size.
    pub(super) fn size(&self, id: Id) -> Option<usize> {
        if let Object::Int(value) = self.get(id) { usize::try_from(*value).ok() } else { None }
    }

    /// Returns the sizes in a tuple or list.
    pub(super) fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        self.sequence(id)?.iter().map(|&id| self.size(id)).collect()
    }

    /// Returns the module, name and arguments of a call.
    pub(super) fn call(&self, id: Id) -> Option<(&str, &str, &[Id])> {
        let Object::Call { callable, args } = self.get(id) else { return None };
        let (module, name) = self.global(*callable)?;
        Some((module, name, self.sequence(*args)?))
    }

    /// Returns the module and name of a global.
    pub(super) fn global(&self, id: Id) -> Option<(&str, &str)> {
        if let Object::Global(module, name) = self.get(id) { Some((module, name)) } else { None }
    }
}
