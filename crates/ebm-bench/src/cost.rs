//! What a work takes at least: arithmetic of the plain algorithm, and numbers that have to cross the memory.

use anyhow::Result;
use ebm_detect::config::{RefinerConfig, Settings};
use ebm_nn::mobilefacenet::{MobileFaceNet, Stage};
use ebm_nn::resnet::{Block, Norm};
use ebm_track::ClassifierConfig;
use ebm_track::box_module::BoxModuleConfig;

use super::work::{Climb, Images, Size, Task, Widths, Work};
use super::works::resnet;

/// Additions and multiplications, counted singly, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub operations: f64,
    /// Parameters, input and output once. With gradients, parameters are read twice and their gradients
    /// written.
    pub bytes: f64,
}

/// Sums in numbers; [`Count::cost`] makes operations and bytes of them.
#[derive(Clone, Copy, Default)]
struct Count {
    products: usize,
    parameters: usize,
    ends: usize,
}

impl Count {
    /// A square convolution with `out` pixels in all, and its bias.
    fn conv(&mut self, inputs: usize, outputs: usize, kernel: usize, out: usize) {
        let weight = inputs * outputs * kernel * kernel;
        self.products += weight * out;
        self.parameters += weight + outputs;
    }

    fn cost(self, gradients: bool) -> Cost {
        // Backward is two products of forward's size: for the input and for the weight.
        let times = if gradients { 3.0 } else { 1.0 };
        let numbers = self.parameters as f64 * times + self.ends as f64;
        Cost { operations: 2.0 * self.products as f64 * times, bytes: numbers * size_of::<f32>() as f64 }
    }
}

/// What a work takes at least.
///
/// # Errors
/// When there is no network of the task's depth.
pub fn cost(work: &Work) -> Result<Cost> {
    of_task(work.task)
}

fn of_task(task: Task) -> Result<Cost> {
    let mut count = Count::default();
    let gradients = match task {
        Task::Resnet { depth, images } | Task::ResnetStep { depth, images } => {
            body(&mut count, depth, 4, images)?;
            matches!(task, Task::ResnetStep { .. })
        }
        Task::ResnetFpn { channels, images } => {
            for (inputs, pixels) in body(&mut count, 50, 4, images)? {
                count.conv(inputs, channels, 1, pixels);
                count.conv(channels, channels, 3, pixels);
                // The pyramid replaces the body's maps as what comes out.
                count.ends = count.ends + channels * pixels - inputs * pixels;
            }
            false
        }
        Task::MobileFaceNetStep { images } => {
            face_body(&mut count, images);
            true
        }
        Task::Conv { channels, size, backward } => {
            count.conv(channels, channels, 3, size.pixels());
            count.ends = 2 * channels * size.pixels();
            backward
        }
        Task::Head { inputs, hidden, classes, rows, backward } => {
            for (inputs, outputs) in [(inputs, hidden), (hidden, hidden), (hidden, classes)] {
                count.conv(inputs, outputs, 1, rows);
            }
            count.ends = rows * (inputs + classes);
            backward
        }
        Task::Refinement { climb: Climb { boxes, steps, .. }, widths, .. } => {
            climb(&mut count, boxes, steps, widths);
            false
        }
        Task::Detector { climb: Climb { boxes, steps, .. }, widths, size } => {
            detector(&mut count, widths, size)?;
            if steps > 0 {
                climb(&mut count, boxes, steps, widths);
            }
            false
        }
        Task::HeadStep { images, objects, samples, widths, .. } => {
            // The true box is one of the samples.
            return Ok(head_step(images * objects * (samples + 1), widths));
        }
        Task::RoiPool { boxes, channels, size, of_boxes } => {
            // The map and its gradient, or what of it lies under the boxes; the pooled boxes and theirs.
            let read = if of_boxes { boxes * BINS } else { size.pixels() };
            count.ends = 2 * channels * (read + boxes * BINS);
            // Two products with an axis' weights for each bin, of two pixels at least, each way.
            count.products = 2 * 4 * boxes * BINS * channels;
            false
        }
        Task::RefinerStep { images, objects, samples, size } => {
            let rows = images * objects * (samples + 1);
            return refiner_step(Images { batch: images, size }, rows);
        }
        Task::TrackerFrame { side, boxes, steps } => {
            let images = Images { batch: 1, size: Size { height: side, width: side } };
            frame(&mut count, images, boxes * (2 * steps + 1))?;
            false
        }
        Task::Loader { images, size: Size { height, width }, short_side, .. } => {
            // Without the decoding: two pixels for each number along one axis and then the other, and the
            // normalisation.
            let (out_height, out_width) =
                (short_side * height / height.min(width), short_side * width / height.min(width));
            count.products = 3 * images * out_width * (2 * height + 3 * out_height);
            count.ends = 3 * images * out_height * out_width;
            false
        }
        Task::Age { batch, side, .. } => {
            body(&mut count, 50, 4, Images { batch, size: Size { height: side, width: side } })?;
            count.conv(FEATURES, FEATURES, 1, batch);
            false
        }
    };
    Ok(count.cost(gradients))
}

/// The branch's training on so many pooled boxes, in which nothing asks for the gradient.
fn head_step(rows: usize, widths: Widths) -> Cost {
    let mut count = Count::default();
    branch(&mut count, rows, widths);
    let first = 2.0 * (widths.channels * BINS * widths.hidden * rows) as f64;
    let all = count.cost(true);
    Cost { operations: all.operations - first, ..all }
}

/// The training of a refiner's pyramid and head on so many boxes, over a frozen body.
fn refiner_step(images: Images, rows: usize) -> Result<Cost> {
    let network = RefinerConfig::embedded("refiner")?.network;
    let (mut frozen, mut trained) = (Count::default(), Count::default());
    for (inputs, pixels) in body(&mut frozen, 18, network.strides.len(), images)? {
        trained.conv(inputs, network.channels, 1, pixels);
        trained.conv(network.channels, network.channels, network.kernel, pixels);
    }
    let bins: usize = network.views.iter().map(|view| view.bins * view.bins).sum();
    trained.conv(network.channels * bins, network.representation, 1, rows);
    trained.conv(network.representation, network.representation, 1, rows);
    let (frozen, trained) = (frozen.cost(false), trained.cost(true));
    Ok(Cost { operations: frozen.operations + trained.operations, bytes: frozen.bytes + trained.bytes })
}

/// Adds a tracker's frame, in which the layers that describe a box do so many times their products.
fn frame(count: &mut Count, images: Images, rows: usize) -> Result<()> {
    let maps = body(count, 18, 3, images)?;
    let module = BoxModuleConfig::atom([maps[1].0, maps[2].0]);
    for (map, &(inputs, pixels)) in maps[1..].iter().enumerate() {
        count.conv(inputs, module.hidden, 3, pixels);
        count.conv(module.hidden, module.pred_input[map], 3, pixels);
        let bins = module.pool[map] * module.pool[map];
        count.conv(module.pred_input[map] * bins, module.pred_inter[map], 1, rows);
    }
    let (classifier, (inputs, pixels)) = (ClassifierConfig::default(), maps[2]);
    count.conv(inputs, classifier.channels, 1, pixels);
    count.conv(classifier.channels, 1, classifier.kernel, pixels);
    Ok(())
}

/// Adds Faster-RCNN's layers up to the scores of its boxes.
fn detector(count: &mut Count, widths: Widths, size: Size) -> Result<()> {
    for (inputs, pixels) in body(count, 50, 4, Images { batch: 1, size })? {
        count.conv(inputs, widths.channels, 1, pixels);
        // The pyramid's output and the proposal network's layer.
        count.conv(widths.channels, widths.channels, 3, 2 * pixels);
    }
    branch(count, PROPOSALS, widths);
    Ok(())
}

/// Boxes that the detector classifies.
const PROPOSALS: usize = 1000;
/// Numbers of a pooled box for each channel.
const BINS: usize = 49;
/// Features of an image in the age network.
const FEATURES: usize = 2048;

/// Adds two linear layers on pooled boxes.
fn branch(count: &mut Count, rows: usize, Widths { channels, hidden }: Widths) {
    count.conv(channels * BINS, hidden, 1, rows);
    count.conv(hidden, hidden, 1, rows);
}

/// Adds a refinement: T + 1 values and T gradients, each one product a layer.
fn climb(count: &mut Count, boxes: usize, steps: usize, widths: Widths) {
    let before = count.parameters;
    branch(count, boxes * (2 * steps + 1), widths);
    // The weights lie in two orders.
    count.parameters += count.parameters - before;
}

/// Adds a MobileFaceNet's convolutions up to its last map.
fn face_body(count: &mut Count, Images { batch, size: Size { height, width } }: Images) {
    let pixels = |stride: usize| batch * height.div_ceil(stride) * width.div_ceil(stride);
    let depthwise = |count: &mut Count, channels: usize, out: usize| {
        count.products += channels * 9 * out;
        count.parameters += channels * 10;
    };
    count.ends += 3 * pixels(1) + MobileFaceNet::CHANNELS * pixels(MobileFaceNet::STRIDE);
    count.conv(3, MobileFaceNet::STEM, 3, pixels(2));
    depthwise(count, MobileFaceNet::STEM, pixels(2));
    // (input, inner, output) of each block, its map's stride before and after.
    let one = |count: &mut Count, [input, inner, output]: [usize; 3], [before, after]: [usize; 2]| {
        count.conv(input, inner, 1, pixels(before));
        depthwise(count, inner, pixels(after));
        count.conv(inner, output, 1, pixels(after));
    };
    let (mut inputs, mut stride) = (MobileFaceNet::STEM, 2);
    for Stage { inner, channels, blocks, .. } in MobileFaceNet::STAGES {
        one(count, [inputs, inner[0], channels], [stride, 2 * stride]);
        stride *= 2;
        for _ in 0..blocks {
            one(count, [channels, inner[1], channels], [stride, stride]);
        }
        inputs = channels;
    }
    count.conv(inputs, MobileFaceNet::CHANNELS, 1, pixels(stride));
}

/// Adds the convolutions of a ResNet's first `stages`; the channels and pixels of their maps, C2 to C5.
fn body(count: &mut Count, depth: usize, stages: usize, images: Images) -> Result<Vec<(usize, usize)>> {
    let config = resnet::config(depth, Norm::Train)?;
    let Images { batch, size: Size { height, width } } = images;
    let pixels = |stride: usize| batch * height.div_ceil(stride) * width.div_ceil(stride);
    count.ends += 3 * pixels(1);
    count.conv(3, config.width, 7, pixels(2));
    let mut maps = Vec::new();
    let mut inputs = config.width;
    for (stage, (&blocks, outputs)) in config.layers.iter().zip(config.channels()).take(stages).enumerate() {
        let (inner, stride) = (config.width << stage, 4 << stage);
        for block in 0..blocks {
            let shrinks = stage > 0 && block == 0;
            let before = pixels(if shrinks { stride / 2 } else { stride });
            match config.block {
                Block::Basic => {
                    count.conv(inputs, inner, 3, pixels(stride));
                    count.conv(inner, inner, 3, pixels(stride));
                }
                Block::Bottleneck => {
                    count.conv(inputs, inner, 1, before);
                    count.conv(inner, inner, 3, pixels(stride));
                    count.conv(inner, outputs, 1, pixels(stride));
                }
            }
            if shrinks || inputs != outputs {
                count.conv(inputs, outputs, 1, pixels(stride));
            }
            inputs = outputs;
        }
        count.ends += outputs * pixels(stride);
        maps.push((outputs, pixels(stride)));
    }
    Ok(maps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_convolution_and_its_gradients() {
        let size = Size { height: 100, width: 136 };
        let task = |backward| Task::Conv { channels: 256, size, backward };
        let products = 256.0 * 256.0 * 9.0 * 13600.0;
        let forward = of_task(task(false)).unwrap();
        assert_eq!(forward.operations, 2.0 * products);
        assert_eq!(forward.bytes, 4.0 * (256.0 * 256.0 * 9.0 + 256.0 + 2.0 * 256.0 * 13600.0));
        assert_eq!(of_task(task(true)).unwrap().operations, 6.0 * products);
    }

    /// He et al., Table 1, and torchvision's documentation: 1.8, 4.1 and 10⁹ products at 224²; 11.7 and 25.6
    /// million parameters with the classifier of 0.5 and 2.0 million.
    #[test]
    fn residual_networks_have_their_published_size() {
        for (depth, products, parameters) in [(18, 1.81e9, 11.18e6), (50, 4.09e9, 23.51e6)] {
            let mut count = Count::default();
            let size = Size { height: 224, width: 224 };
            body(&mut count, depth, 4, Images { batch: 1, size }).unwrap();
            assert!((count.products as f64 / products - 1.0).abs() < 0.01, "{}", count.products);
            // The bias that normalisation leaves counts once, its scale and shift twice in the published
            // number.
            assert!((count.parameters as f64 / parameters - 1.0).abs() < 0.01, "{}", count.parameters);
        }
    }

    #[test]
    fn every_work_has_a_cost() {
        for work in [false, true].into_iter().flat_map(|gpu| crate::work::works(true, gpu)) {
            let cost = cost(&work).unwrap();
            assert!(cost.operations > 0.0 && cost.bytes > 0.0, "{}", work.name);
        }
    }
}
