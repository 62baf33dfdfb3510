//! Networks as ONNX files for other runtimes, with standard operators only.
//!
//! The format is Protocol Buffers, and a network needs at most ten fields of each message. The writer below takes
//! a hundred lines; a crate of the whole schema would bring a compiler for it. A layer adds itself to a [`Graph`]
//! with a method `onnx` beside the method that computes. The normalisation is folded, and maps are (N, C, H, W).

mod layers;
mod prroi_pool;

pub use prroi_pool::{Ends, PrRoiPool};

use candle_core::{DType, Tensor};

use crate::{Error, Result};

/// Version of the operators; runtimes since 2020 have it.
const OPSET_VERSION: u64 = 13;

/// Version of the format that came with these operators.
const IR_VERSION: u64 = 7;

/// Size limit of Protocol Buffers, two gibibytes.
const MAX_BYTES: usize = (2 << 30) - 1;

/// Types of a tensor's elements, as numbers of the format.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// Message of Protocol Buffers, written field by field.
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

/// Tensor of a graph.
#[derive(Clone, Debug)]
pub struct Value(String);

impl Value {
    /// Returns the placeholder of an optional input.
    pub fn none() -> Self {
        Self(String::new())
    }
}

/// Setting of an operator.
#[derive(Clone, Copy, Debug)]
pub enum Attribute<'a> {
    /// A whole number.
    Int(i64),
    /// Several whole numbers.
    Ints(&'a [i64]),
    /// A number.
    Float(f32),
    /// A word.
    Text(&'a str),
}

/// Size of an input or output along one dimension.
#[derive(Clone, Copy, Debug)]
pub enum Length<'a> {
    /// A fixed size.
    Fixed(usize),
    /// Any size, with a name that other sizes may share.
    Any(&'a str),
}

/// Part of a network, as a file. Several parts compute f(x, y), and only the last one takes y. The outputs of the
/// parts before it depend on x alone and serve every y.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Network that is being written to a file.
#[derive(Debug)]
pub struct Graph {
    name: String,
    nodes: Message,
    constants: Message,
    inputs: Message,
    outputs: Message,
    /// Number of values with a generated name.
    count: usize,
}

impl Graph {
    /// Creates an empty graph.
    pub fn new(name: &str) -> Self {
        let [nodes, constants, inputs, outputs] = std::array::from_fn(|_| Message::default());
        Self { name: name.to_owned(), nodes, constants, inputs, outputs, count: 0 }
    }

    fn fresh(&mut self, what: &str) -> Value {
        self.count += 1;
        Value(format!("{what}_{}", self.count))
    }

    /// Adds an input of floating-point numbers.
    pub fn input(&mut self, name: &str, lengths: &[Length<'_>]) -> Value {
        self.inputs.message(11, &value_info(name, lengths));
        Value(name.to_owned())
    }

    /// Makes `value` an output of floating-point numbers.
    pub fn output(&mut self, name: &str, value: &Value, lengths: &[Length<'_>]) {
        let mut node = Message::default();
        node.text(1, &value.0).text(2, name).text(3, name).text(4, "Identity");
        self.nodes.message(1, &node);
        self.outputs.message(12, &value_info(name, lengths));
    }

    /// Makes `value` an output of this graph and an input of the `next` part, and returns that input.
    pub fn hand_on(&mut self, next: &mut Self, name: &str, value: &Value, lengths: &[Length<'_>]) -> Value {
        self.output(name, value, lengths);
        next.input(name, lengths)
    }

    /// Adds a constant in single precision.
    ///
    /// # Errors
    /// If the tensor cannot be read.
    pub fn constant(&mut self, tensor: &Tensor) -> Result<Value> {
        let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1::<f32>()?;
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Ok(self.initializer("constant", FLOAT, tensor.dims(), &bytes))
    }

    /// Adds a constant vector.
    pub fn numbers(&mut self, values: &[f32]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer("numbers", FLOAT, &[values.len()], &bytes)
    }

    /// Adds a constant number.
    pub fn number(&mut self, value: f32) -> Value {
        self.initializer("number", FLOAT, &[], &value.to_le_bytes())
    }

    /// Adds a constant vector of whole numbers: a shape, axes, indices.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.initializer("integers", INT64, &[values.len()], &bytes)
    }

    /// Adds a constant whole number.
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

    /// Adds an operator and returns its result.
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
            // The last field tells the type of the attribute.
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

    /// Adds a fully-connected layer and returns x·Wᵀ + b of `x (…, I)`, with `weight (O, I)` and `bias (O)`.
    ///
    /// # Errors
    /// If a parameter cannot be read.
    pub fn linear(&mut self, x: &Value, weight: &Tensor, bias: Option<&Tensor>) -> Result<Value> {
        let weight = self.constant(&weight.t()?.contiguous()?)?;
        let product = self.node("MatMul", &[x, &weight], &[]);
        let Some(bias) = bias else { return Ok(product) };
        let bias = self.constant(bias)?;
        Ok(self.node("Add", &[&product, &bias], &[]))
    }

    /// Returns the file, with `metadata`.
    ///
    /// # Errors
    /// [`Error::Argument`] if the file would be larger than the format allows.
    pub fn finish(self, metadata: &[(&str, String)]) -> Result<Part> {
        let mut graph = self.nodes;
        graph.text(2, &self.name);
        for part in [self.constants, self.inputs, self.outputs] {
            graph.0.extend(part.0);
        }
        let mut operators = Message::default();
        operators.text(1, "").number(2, OPSET_VERSION);
        let mut model = Message::default();
        model.number(1, IR_VERSION).text(2, "ebm");
        model.message(7, &graph).message(8, &operators);
        for (key, value) in metadata {
            let mut entry = Message::default();
            entry.text(1, key).text(2, value);
            model.message(14, &entry);
        }
        if model.0.len() > MAX_BYTES {
            let reason =
                format!("the network takes {} bytes, and ONNX files {MAX_BYTES} at most", model.0.len());
            return Err(Error::Argument { op: "ONNX", reason });
        }
        Ok(Part { name: self.name, bytes: model.0 })
    }
}

/// Returns the name and the shape of an input or output as a message.
fn value_info(name: &str, lengths: &[Length<'_>]) -> Message {
    let mut shape = Message::default();
    for length in lengths {
        let mut dimension = Message::default();
        match length {
            Length::Fixed(length) => dimension.number(1, *length as u64),
            Length::Any(name) => dimension.text(2, name),
        };
        shape.message(1, &dimension);
    }
    let (mut tensor, mut kind, mut info) = (Message::default(), Message::default(), Message::default());
    tensor.number(1, FLOAT).message(2, &shape);
    kind.message(1, &tensor);
    info.text(1, name).message(2, &kind);
    info
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
