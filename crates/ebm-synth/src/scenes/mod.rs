//! Generated detection scenes in COCO format, made for comparing box heads on a small budget.
//!
//! A scene is a textured background with a few annotated objects of up to six categories. The annotated box
//! is the *amodal* one: the extent of the whole, sharp silhouette as if nothing hid it, clipped to the image.
//! Each of the following therefore leaves p(y | x) wide, one-sided or with several modes, as real annotations
//! do:
//!
//! * an edge hidden by another object, or by a strip that is not annotated;
//! * an edge blurred by defocus or motion;
//! * one side that fades into what is behind it, or whose colour does;
//! * a thin part (the mug's handle, the radio's antenna) that is absent, faint or hidden, and decides where the
//!   box ends;
//! * truncation at the border, background clutter, sensor noise and JPEG compression.
//!
//! Colours and textures are drawn independently of the category, so that only the shape tells it.
//!
//! | file | what it holds |
//! |---|---|
//! | `config` | [`SceneConfig`], its [`Difficulty`] presets and its validation |
//! | `layout` | where objects and strips go, and how much of each stays visible |
//! | `appearance` | how one object looks: texture, shading, fade, blur |
//! | `background` | what lies behind the objects |
//! | `render` | the scene from background to 8-bit pixels |
//! | `dataset` | [`generate`]: JPEG files, `annotations.json`, `scenes.json` |
//!
//! Silhouettes, textures and layers are those of `drawing`.
//!
//! Every draw comes from a [`Key`](ebm_seed::Key) split by purpose. The bytes of a scene depend on its key
//! and configuration alone; across platforms they may differ where the system's `sin`, `cos` and `powf` do.

mod appearance;
mod background;
mod config;
mod dataset;
mod layout;
mod render;

pub use crate::drawing::shape::Category;
pub(crate) use appearance::Appearance;
pub(crate) use background::Background;
pub use config::{Difficulty, SceneConfig};
pub use dataset::{GeneratedSet, generate};
pub(crate) use layout::Placed;
pub use render::{SceneObject, render_scene};
