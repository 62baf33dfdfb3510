//! A photograph that the page sends.

use std::path::Path;

use ebm_data::Image;
use ebm_data::decode::decode_upright;
use percent_encoding::percent_decode_str;

use crate::error::Result;
use crate::limits;

/// The name of a photograph whose request has none.
const NAMELESS: &str = "the photograph";

/// The photograph whose file is `bytes`; its name is the query `name=`.
pub fn upload(query: &str, bytes: &[u8]) -> Result<Image> {
    let name = query.split('&').find_map(|part| part.strip_prefix("name="));
    let name = name.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
    let name = name.unwrap_or_else(|| NAMELESS.to_owned());
    Ok(decode_upright(bytes, Path::new(&name), &limits::decode())?)
}
