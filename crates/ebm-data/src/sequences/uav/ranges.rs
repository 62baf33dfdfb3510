//! The parts of folders that are sequences.

/// A sequence that is a part of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The sequence's name.
    pub name: &'static str,
    /// The folder of its frames.
    pub folder: &'static str,
    /// The number of its first frame.
    pub first: usize,
    /// The number of its last frame.
    pub last: usize,
}

/// The 51 sequences of UAV123 that are parts of 19 folders, as configured in the benchmark's own files.
/// (Those of its version with every third frame have the same ranges, each number one more than a multiple of
/// three.)
pub const RANGES: [Range; 51] = [
    range("bird1_1", "bird1", 1, 253),
    range("bird1_2", "bird1", 775, 1477),
    range("bird1_3", "bird1", 1573, 2437),
    range("car1_1", "car1", 1, 751),
    range("car1_2", "car1", 751, 1627),
    range("car1_3", "car1", 1627, 2629),
    range("car6_1", "car6", 1, 487),
    range("car6_2", "car6", 487, 1807),
    range("car6_3", "car6", 1807, 2953),
    range("car6_4", "car6", 2953, 3925),
    range("car6_5", "car6", 3925, 4861),
    range("car8_1", "car8", 1, 1357),
    range("car8_2", "car8", 1357, 2575),
    range("car16_1", "car16", 1, 415),
    range("car16_2", "car16", 415, 1993),
    range("group1_1", "group1", 1, 1333),
    range("group1_2", "group1", 1333, 2515),
    range("group1_3", "group1", 2515, 3925),
    range("group1_4", "group1", 3925, 4873),
    range("group2_1", "group2", 1, 907),
    range("group2_2", "group2", 907, 1771),
    range("group2_3", "group2", 1771, 2683),
    range("group3_1", "group3", 1, 1567),
    range("group3_2", "group3", 1567, 2827),
    range("group3_3", "group3", 2827, 4369),
    range("group3_4", "group3", 4369, 5527),
    range("person2_1", "person2", 1, 1189),
    range("person2_2", "person2", 1189, 2623),
    range("person4_1", "person4", 1, 1501),
    range("person4_2", "person4", 1501, 2743),
    range("person5_1", "person5", 1, 877),
    range("person5_2", "person5", 877, 2101),
    range("person7_1", "person7", 1, 1249),
    range("person7_2", "person7", 1249, 2065),
    range("person8_1", "person8", 1, 1075),
    range("person8_2", "person8", 1075, 1525),
    range("person12_1", "person12", 1, 601),
    range("person12_2", "person12", 601, 1621),
    range("person14_1", "person14", 1, 847),
    range("person14_2", "person14", 847, 1813),
    range("person14_3", "person14", 1813, 2923),
    range("person17_1", "person17", 1, 1501),
    range("person17_2", "person17", 1501, 2347),
    range("person19_1", "person19", 1, 1243),
    range("person19_2", "person19", 1243, 2791),
    range("person19_3", "person19", 2791, 4357),
    range("truck4_1", "truck4", 1, 577),
    range("truck4_2", "truck4", 577, 1261),
    range("uav1_1", "uav1", 1, 1555),
    range("uav1_2", "uav1", 1555, 2377),
    range("uav1_3", "uav1", 2473, 3469),
];

const fn range(name: &'static str, folder: &'static str, first: usize, last: usize) -> Range {
    Range { name, folder, first, last }
}
