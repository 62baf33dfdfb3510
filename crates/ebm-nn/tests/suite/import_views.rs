//! Archives of torch's in which tensors share storages, made here byte by byte.

use std::time::Instant;

use crate::common::{CPU, crc32, to_vec};
use ebm_nn::import;

/// The pickle of a dictionary of views of one element each: the name, the storage and the place in it.
fn pickle(views: &[(String, String, u8)], elements: u32) -> Vec<u8> {
    let text =
        |text: &str| [b"X", &u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let mut bytes = b"\x80\x02}(".to_vec();
    for (name, storage, place) in views {
        bytes.extend(text(name));
        bytes.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        bytes.extend(text("storage"));
        bytes.extend(b"ctorch\nFloatStorage\n");
        bytes.extend([text(storage), text("cpu")].concat());
        bytes.push(b'J');
        bytes.extend(elements.to_le_bytes());
        // The reference; offset, shape and strides; no gradient, no hooks.
        bytes.extend([b't', b'Q', b'K', *place]);
        bytes.extend(b"K\x01\x85K\x01\x85\x89ccollections\nOrderedDict\n)RtR");
    }
    bytes.extend(b"u.");
    bytes
}

/// A member of an archive and the entry of the directory that names it.
struct Member {
    name: String,
    content: Vec<u8>,
}

/// Returns the archive of these members, with further names for the last one.
fn archive(members: &[Member], further: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    let sizes = |member: &Member| {
        let size = u32::try_from(member.content.len()).unwrap().to_le_bytes();
        [crc32(&member.content).to_le_bytes(), size, size].concat()
    };
    let entry = |name: &str, sizes: &[u8], at: usize| {
        let length = u16::try_from(name.len()).unwrap().to_le_bytes();
        let at = u32::try_from(at).unwrap().to_le_bytes();
        [b"PK\x01\x02", &[0; 12][..], sizes, &length, &[0; 12], &at, name.as_bytes()].concat()
    };
    let mut last = (Vec::new(), 0);
    for member in members {
        last = (sizes(member), bytes.len());
        directory.push(entry(&member.name, &last.0, last.1));
        let length = u16::try_from(member.name.len()).unwrap().to_le_bytes();
        let header = [b"PK\x03\x04", &[0; 10][..], &last.0, &length, &[0; 2], member.name.as_bytes()];
        bytes.extend(header.concat());
        bytes.extend(&member.content);
    }
    directory.extend(further.iter().map(|name| entry(name, &last.0, last.1)));
    let (at, count) = (u32::try_from(bytes.len()).unwrap(), u16::try_from(directory.len()).unwrap());
    let directory = directory.concat();
    bytes.extend(&directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend([u32::try_from(directory.len()).unwrap().to_le_bytes(), at.to_le_bytes()].concat());
    bytes.extend([0; 2]);
    bytes
}

fn load(bytes: &[u8]) -> ebm_nn::Result<std::collections::BTreeMap<String, candle_core::Tensor>> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("views.pth");
    std::fs::write(&path, bytes).unwrap();
    import::load(&path, &CPU)
}

/// One storage of 16 MiB: 0, 1, 2, … in its first elements.
fn storage() -> Vec<u8> {
    (0..4u32 << 20).flat_map(|i| (i as f32).to_le_bytes()).collect()
}

#[test]
fn a_storage_is_verified_once_however_many_tensors_share_it() {
    let views: Vec<_> = (0..200u8).map(|i| (format!("v{i}"), "0".to_owned(), i)).collect();
    let content = pickle(&views, 4 << 20);
    let members = [
        Member { name: "a/data.pkl".to_owned(), content },
        Member { name: "a/data/0".to_owned(), content: storage() },
    ];
    let mut bytes = archive(&members, &[]);
    let start = Instant::now();
    let found = load(&bytes).unwrap();
    // 200 checksums of 16 MiB each take some ten seconds.
    assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
    assert_eq!(found.len(), 200);
    assert_eq!(to_vec(&found["v7"]), [7.]);
    // The member is verified nevertheless.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    assert!(load(&bytes).unwrap_err().to_string().contains("does not have its checksum"));
}

#[test]
fn storages_that_overlap_are_refused() {
    let views: Vec<_> = (0..200u8).map(|i| (format!("v{i}"), i.to_string(), 0)).collect();
    let members = [
        Member { name: "a/data.pkl".to_owned(), content: pickle(&views, 4 << 20) },
        Member { name: "a/data/0".to_owned(), content: storage() },
    ];
    let further: Vec<_> = (1..200).map(|i| format!("a/data/{i}")).collect();
    let start = Instant::now();
    let error = load(&archive(&members, &further)).unwrap_err().to_string();
    assert!(error.contains("more bytes than the file"), "{error}");
    assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
}
