//! Networks as files that other runtimes execute: the Open Neural Network Exchange, of standard operators alone.
//!
//! The format is Protocol Buffers, of whose messages a network needs ten fields or fewer each: writing them takes
//! the hundred lines below, where a crate of the whole schema brings a compiler for it. Layers add themselves to a
//! [`Graph`] with a method `onnx`, beside the one that computes: normalisation folded, maps (N, C, H, W).

mod layers;
mod prroi_pool;

pub use prroi_pool::{Ends, PrRoiPool};

use candle_core::{DType, Tensor};

use crate::{Error, Result};

/// The version of the operators; runtimes since 2020 have it.
const OPERATORS: u64 = 13;

/// The version of the format that came with these operators.
const FORMAT: u64 = 7;

/// Protocol Buffers end at two gibibytes.
const MOST_BYTES: usize = (2 << 30) - 1;

/// The types of a tensor's elements, by the format's numbers.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A message of Protocol Buffers, field by field.
#[derive(Clone, Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) -> &mut Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, field: u64, text: &str) -> &mut Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(&mut self, field: u64, message: &Self) -> &mut Self {
        self.bytes(field, &message.0)
    }

    fn float(&mut self, field: u64, value: f32) -> &mut Self {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

/// A tensor of a graph.
#[derive(Clone, Debug)]
pub struct Value(String);

impl Value {
    /// In the place of an input that an operator may go without.
    #[must_use]
    pub fn none() -> Self {
        Self(String::new())
    }
}

/// A setting of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    /// A whole number.
    Int(i64),
    /// Several.
    Ints(&'a [i64]),
    /// A number.
    Float(f32),
    /// A word.
    Text(&'a str),
}

/// A length of an input or output.
#[derive(Clone, Copy, Debug)]
pub enum Length<'a> {
    /// Always this.
    Fixed(usize),
    /// Any, by a name that other lengths may share.
    Any(&'a str),
}

/// A part of a network, as a file. f(x, y) is computed by several, of which the last alone takes y: what those before
/// it made of x serves every y.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the part is called.
    pub name: String,
    /// What the file holds.
    pub bytes: Vec<u8>,
}

/// A network that is being written down.
#[derive(Debug)]
pub struct Graph {
    name: String,
    nodes: Message,
    constants: Message,
    inputs: Message,
    outputs: Message,
    /// How many values have got a name.
    count: usize,
}

impl Graph {
    /// An empty one.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let [nodes, constants, inputs, outputs] = std::array::from_fn(|_| Message::default());
        Self { name: name.to_owned(), nodes, constants, inputs, outputs, count: 0 }
    }

    fn fresh(&mut self, what: &str) -> Value {
        self.count += 1;
        Value(format!("{what}_{}", self.count))
    }

    /// An input of numbers.
    pub fn input(&mut self, name: &str, lengths: &[Length<'_>]) -> Value {
        self.inputs.message(11, &described(name, lengths));
        Value(name.to_owned())
    }

    /// Makes `value` an output of numbers.
    pub fn output(&mut self, name: &str, value: &Value, lengths: &[Length<'_>]) {
        let mut node = Message::default();
        node.text(1, &value.0).text(2, name).text(3, name).text(4, "Identity");
        self.nodes.message(1, &node);
        self.outputs.message(12, &described(name, lengths));
    }

    /// Makes `value` an output, and an input of the part that comes `next`, which it is there.
    pub fn hand_on(&mut self, next: &mut Self, name: &str, value: &Value, lengths: &[Length<'_>]) -> Value {
        self.output(name, value, lengths);
        next.input(name, lengths)
    }

    /// A constant, in single precision.
    ///
    /// # Errors
    /// When the tensor cannot be read.
    pub fn constant(&mut self, tensor: &Tensor) -> Result<Value> {
        let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(self.initializer("constant", FLOAT, tensor.dims(), &bytes))
    }

    /// A constant of so many numbers along one axis.
    pub fn numbers(&mut self, values: &[f32]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer("numbers", FLOAT, &[values.len()], &bytes)
    }

    /// A constant that is one number.
    pub fn number(&mut self, value: f32) -> Value {
        self.initializer("number", FLOAT, &[], &value.to_le_bytes())
    }

    /// A constant of whole numbers along one axis: a shape, axes, places.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer("integers", INT64, &[values.len()], &bytes)
    }

    /// A constant that is one whole number.
    pub fn integer(&mut self, value: i64) -> Value {
        self.initializer("integer", INT64, &[], &value.to_le_bytes())
    }

    fn initializer(&mut self, what: &str, kind: u64, dims: &[usize], bytes: &[u8]) -> Value {
        let value = self.fresh(what);
        let mut tensor = Message::default();
        for dim in dims {
            tensor.number(1, *dim as u64);
        }
        tensor.number(2, kind).text(8, &value.0).bytes(9, bytes);
        self.constants.message(5, &tensor);
        value
    }

    /// The result of an operator.
    pub fn node(&mut self, op: &str, inputs: &[&Value], attributes: &[(&str, Attribute<'_>)]) -> Value {
        let value = self.fresh(&op.to_lowercase());
        let mut node = Message::default();
        for input in inputs {
            node.text(1, &input.0);
        }
        node.text(2, &value.0).text(3, &value.0).text(4, op);
        for (name, attribute) in attributes {
            let mut message = Message::default();
            message.text(1, name);
            // The last field says which of the others counts.
            match *attribute {
                Attribute::Float(number) => message.float(2, number).number(20, 1),
                Attribute::Int(number) => message.number(3, number as u64).number(20, 2),
                Attribute::Text(word) => message.text(4, word).number(20, 3),
                Attribute::Ints(numbers) => {
                    for number in numbers {
                        message.number(8, *number as u64);
                    }
                    message.number(20, 7)
                }
            };
            node.message(5, &message);
        }
        self.nodes.message(1, &node);
        value
    }

    /// x·Wᵀ + b of a fully-connected layer, `x (…, I)`, with `weight (O, I)` and `bias (O)`.
    ///
    /// # Errors
    /// When a parameter cannot be read.
    pub fn linear(&mut self, x: &Value, weight: &Tensor, bias: Option<&Tensor>) -> Result<Value> {
        let weight = self.constant(&weight.t()?.contiguous()?)?;
        let product = self.node("MatMul", &[x, &weight], &[]);
        let Some(bias) = bias else { return Ok(product) };
        let bias = self.constant(bias)?;
        Ok(self.node("Add", &[&product, &bias], &[]))
    }

    /// The file, with what it says of itself.
    ///
    /// # Errors
    /// [`Error::Argument`] when it would be larger than the format allows.
    pub fn finish(self, metadata: &[(&str, String)]) -> Result<Part> {
        let mut graph = self.nodes;
        graph.text(2, &self.name);
        for part in [self.constants, self.inputs, self.outputs] {
            graph.0.extend(part.0);
        }
        let mut operators = Message::default();
        operators.text(1, "").number(2, OPERATORS);
        let mut model = Message::default();
        model.number(1, FORMAT).text(2, "ebm");
        model.message(7, &graph).message(8, &operators);
        for (key, value) in metadata {
            let mut entry = Message::default();
            entry.text(1, key).text(2, value);
            model.message(14, &entry);
        }
        if model.0.len() > MOST_BYTES {
            let reason =
                format!("the network takes {} bytes, and ONNX files {MOST_BYTES} at most", model.0.len());
            return Err(Error::Argument { op: "ONNX", reason });
        }
        Ok(Part { name: self.name, bytes: model.0 })
    }
}

/// What an input or output is called, and its shape.
fn described(name: &str, lengths: &[Length<'_>]) -> Message {
    let mut shape = Message::default();
    for length in lengths {
        let mut dimension = Message::default();
        match length {
            Length::Fixed(length) => dimension.number(1, *length as u64),
            Length::Any(name) => dimension.text(2, name),
        };
        shape.message(1, &dimension);
    }
    let (mut tensor, mut kind, mut described) = (Message::default(), Message::default(), Message::default());
    tensor.number(1, FLOAT).message(2, &shape);
    kind.message(1, &tensor);
    described.text(1, name).message(2, &kind);
    described
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_protocol_buffers() {
        // The documentation's examples of a number and of a text.
        let mut message = Message::default();
        message.number(1, 150).text(2, "testing").float(3, 1.0);
        let expected =
            [&[0x08, 0x96, 0x01, 0x12, 0x07][..], b"testing", &[0x1d, 0x00, 0x00, 0x80, 0x3f]].concat();
        assert_eq!(message.0, expected);
        // Negative numbers take ten bytes.
        let mut negative = Message::default();
        assert_eq!(negative.number(3, -1i64 as u64).0.len(), 11);
    }
}
