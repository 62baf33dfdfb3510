//! Figures, textures and layers: what generated scenes and videos are drawn with.
//!
//! | file | what it holds |
//! |---|---|
//! | `primitive` | signed distance and exact extent of ellipses, polygons and strokes |
//! | `shape` | silhouettes, among them that of each [`Category`](shape::Category) |
//! | `mask` | coverage of a silhouette on the pixel grid |
//! | `noise`, `texture` | value noise, patterns, colours |
//! | `layer` | premultiplied layers: blur and compositing in linear light |
//! | `sensor` | from light to 8-bit pixels |

pub(crate) mod layer;
pub(crate) mod mask;
pub(crate) mod noise;
pub(crate) mod primitive;
pub(crate) mod sensor;
pub(crate) mod shape;
pub(crate) mod texture;
