//! Stack machine that executes a pickle.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{Id, Object};

/// Largest number of objects of one pickle; the file of a ResNet-50 has some 10 000.
const MAX_OBJECTS: usize = 1 << 22;

/// State of the machine.
#[derive(Default)]
pub(super) struct Machine<'a> {
    objects: Vec<Object<'a>>,
    stack: Vec<Id>,
    /// Height of the stack at each mark.
    marks: Vec<usize>,
    memo: BTreeMap<usize, Id>,
}

impl<'a> Machine<'a> {
    /// Returns all objects that were made.
    pub(super) fn into_objects(self) -> Vec<Object<'a>> {
        self.objects
    }

    /// Executes the next opcode. Returns the root object at the end.
    pub(super) fn step(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Id>, String> {
        let code = take(bytes, 1)?[0];
        match code {
            // Protocol and frame do not concern the objects.
            0x80 => drop(take(bytes, 1)?),
            0x95 => drop(take(bytes, 8)?),
            b'.' => return self.pop().map(Some),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.pop()?),
            b'1' => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }
            b'q' => self.remember(size(bytes, 1)?)?,
            b'r' => self.remember(size(bytes, 4)?)?,
            0x94 => self.remember(self.memo.len())?,
            b'h' => self.recall(size(bytes, 1)?)?,
            b'j' => self.recall(size(bytes, 4)?)?,
            b'c' | 0x93 | b'R' | 0x81 | 0x92 | b'b' | b'Q' => self.make(code, bytes)?,
            other if self.collect(other)? => {}
            other => self.value(other, bytes)?,
        }
        Ok(None)
    }

    /// Reads a number, a text or bytes from the pickle.
    fn value(&mut self, code: u8, bytes: &mut &'a [u8]) -> Result<(), String> {
        match code {
            b'N' => self.push(Object::Other),
            0x88 | 0x89 => self.push(Object::Bool(code == 0x88)),
            b'K' => self.integer(bytes, 1, false),
            b'M' => self.integer(bytes, 2, false),
            b'J' => self.integer(bytes, 4, true),
            0x8A | 0x8B => {
                let length = size(bytes, if code == 0x8A { 1 } else { 4 })?;
                self.integer(bytes, length, true)
            }
            b'G' => {
                take(bytes, 8)?;
                self.push(Object::Other)
            }
            b'X' => self.text(bytes, 4),
            0x8C => self.text(bytes, 1),
            0x8D => self.text(bytes, 8),
            b'U' | b'C' => self.bytes(bytes, 1),
            b'T' | b'B' => self.bytes(bytes, 4),
            0x8E => self.bytes(bytes, 8),
            other => Err(format!("operation {other:#04x} is not known")),
        }
    }

    /// Makes a sequence or dictionary from the top of the stack, or adds items to one. Returns false for another
    /// `code`.
    fn collect(&mut self, code: u8) -> Result<bool, String> {
        match code {
            b')' | b']' | 0x8F => self.push(Object::Sequence(Vec::new()))?,
            b'}' => self.push(Object::Dictionary(Vec::new()))?,
            0x85..=0x87 => {
                let first = self.base(usize::from(code - 0x84))?;
                let items = self.stack.split_off(first);
                self.push(Object::Sequence(items))?;
            }
            b't' | b'l' | 0x91 => {
                let items = self.pop_mark()?;
                self.push(Object::Sequence(items))?;
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])?;
            }
            b'e' | 0x90 => {
                let items = self.pop_mark()?;
                self.append(items)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(&[key, value])?;
            }
            b'u' | b'd' => {
                let items = self.pop_mark()?;
                if code == b'd' {
                    self.push(Object::Dictionary(Vec::new()))?;
                }
                self.insert(&items)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Makes a class or function by its name, or a call of one.
    fn make(&mut self, code: u8, bytes: &mut &'a [u8]) -> Result<(), String> {
        match code {
            b'c' => {
                let (module, name) = (line(bytes)?, line(bytes)?);
                self.push(Object::Global(module, name))
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let [module, name] = [module, name].map(|id| self.owned_text(id));
                self.push(Object::Global(module?, name?))
            }
            // Attributes of a dictionary (a `state_dict` has `_metadata`) are not entries, so they are dropped.
            b'b' => {
                self.pop()?;
                self.top().map(drop)
            }
            b'Q' => {
                let id = self.pop()?;
                self.push(Object::Persistent(id))
            }
            // One of the three calling opcodes has named arguments.
            _ => {
                if code == 0x92 {
                    self.pop()?;
                }
                let (args, callable) = (self.pop()?, self.pop()?);
                self.call(callable, args)
            }
        }
    }

    fn push(&mut self, object: Object<'a>) -> Result<(), String> {
        if self.objects.len() >= MAX_OBJECTS {
            return Err(format!("it has more than {MAX_OBJECTS} objects"));
        }
        self.stack.push(self.objects.len());
        self.objects.push(object);
        Ok(())
    }

    /// Returns the height of the stack below its last `count` objects, which must lie above the last mark.
    fn base(&self, count: usize) -> Result<usize, String> {
        let floor = self.marks.last().copied().unwrap_or(0);
        let base = self.stack.len().checked_sub(count).filter(|&base| base >= floor);
        base.ok_or_else(|| "it takes an object that is not there".to_owned())
    }

    fn top(&self) -> Result<Id, String> {
        Ok(self.stack[self.base(1)?])
    }

    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn pop_mark(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("it goes back to a mark that is not there")?;
        Ok(self.stack.split_off(mark))
    }

    fn integer(&mut self, bytes: &mut &'a [u8], length: usize, signed: bool) -> Result<(), String> {
        let little = take(bytes, length)?;
        let negative = signed && little.last().is_some_and(|byte| byte & 0x80 != 0);
        let mut wide = [if negative { 0xFF } else { 0 }; 16];
        let object = match wide.get_mut(..length) {
            Some(low) => {
                low.copy_from_slice(little);
                Object::Int(i128::from_le_bytes(wide))
            }
            None => Object::Other,
        };
        self.push(object)
    }

    fn text(&mut self, bytes: &mut &'a [u8], width: usize) -> Result<(), String> {
        let length = size(bytes, width)?;
        let text = std::str::from_utf8(take(bytes, length)?).map_err(|_| "a text is not UTF-8")?;
        self.push(Object::Text(Cow::Borrowed(text)))
    }

    fn bytes(&mut self, bytes: &mut &'a [u8], width: usize) -> Result<(), String> {
        let length = size(bytes, width)?;
        let content = take(bytes, length)?;
        self.push(Object::Bytes(content))
    }

    fn owned_text(&self, id: Id) -> Result<Cow<'a, str>, String> {
        match self.objects.get(id) {
            Some(Object::Text(text)) => Ok(text.clone()),
            _ => Err("a global's name is no text".to_owned()),
        }
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = self.top()?;
        match &mut self.objects[list] {
            Object::Sequence(list) => list.extend(items),
            // Other collections hold no weights.
            Object::Call { .. } => {}
            _ => return Err("it appends to what is no list".to_owned()),
        }
        Ok(())
    }

    fn insert(&mut self, items: &[Id]) -> Result<(), String> {
        let (pairs, rest) = items.as_chunks::<2>();
        let dictionary = self.top()?;
        match &mut self.objects[dictionary] {
            _ if !rest.is_empty() => return Err("a key has no value".to_owned()),
            Object::Dictionary(entries) => entries.extend(pairs.iter().map(|&[key, value]| (key, value))),
            Object::Call { .. } => {}
            _ => return Err("it sets an entry of what is no dictionary".to_owned()),
        }
        Ok(())
    }

    fn call(&mut self, callable: Id, args: Id) -> Result<(), String> {
        let dictionary = match &self.objects[callable] {
            Object::Global(module, name) => {
                module == "collections" && matches!(&**name, "OrderedDict" | "defaultdict")
            }
            _ => false,
        };
        self.push(if dictionary { Object::Dictionary(Vec::new()) } else { Object::Call { callable, args } })
    }

    fn remember(&mut self, key: usize) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall(&mut self, key: usize) -> Result<(), String> {
        let id = *self.memo.get(&key).ok_or("it refers to an object that is not there")?;
        self.stack.push(id);
        Ok(())
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or("it is cut off or too long")?;
    *bytes = rest;
    Ok(taken)
}

/// Reads a length of `width` ≤ 8 little-endian bytes.
fn size(bytes: &mut &[u8], width: usize) -> Result<usize, String> {
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(take(bytes, width)?);
    usize::try_from(u64::from_le_bytes(wide)).map_err(|_| "a length is beyond all memory".to_owned())
}

fn line<'a>(bytes: &mut &'a [u8]) -> Result<Cow<'a, str>, String> {
    let end = bytes.iter().position(|&byte| byte == b'\n').ok_or("it is cut off")?;
    let text = take(bytes, end)?;
    take(bytes, 1)?;
    Ok(Cow::Borrowed(std::str::from_utf8(text).map_err(|_| "a global's name is not UTF-8")?))
}
