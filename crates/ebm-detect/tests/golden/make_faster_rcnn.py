"""Golden values of torchvision's fasterrcnn_resnet50_fpn.

    ebm data decode IMAGE.jpg IMAGE.png      # libraries decode JPEG differently by a few levels
    python make_faster_rcnn.py IMAGE.png OUT.safetensors [--short-side 800] [--save-pth OUT.pth]

Weights are a formula of name and position (`hashed` in formula.py and in tests/suite/formula.rs), so that they need not be
stored. With --save-pth they are saved too, as torch saves them.
"""
import argparse, numpy as np, torch, torchvision
from PIL import Image
from safetensors.numpy import save_file

from formula import hashed

def bounds(name, shape):
    if name.endswith("running_var"):
        return 0.5, 1.5
    if name.endswith("running_mean"):
        return -0.1, 0.1
    if len(shape) == 1:
        return (0.3, 0.7) if name.endswith("weight") else (-0.05, 0.05)
    gain = {"cls_score": 2.5, "bbox_pred": 1.0, "cls_logits": 4.0}.get(name.split(".")[-2], 1.0)
    bound = gain * (6.0 / float(np.prod(shape[1:]))) ** 0.5
    return -bound, bound

parser = argparse.ArgumentParser()
parser.add_argument("image"); parser.add_argument("out")
parser.add_argument("--short-side", type=int, default=800); parser.add_argument("--save-pth")
args = parser.parse_args()
torch.set_num_threads(2)
model = torchvision.models.detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, min_size=args.short_side)
# What torchvision itself does for its published weights: no epsilon in the frozen batch norm.
for module in model.modules():
    if isinstance(module, torchvision.ops.misc.FrozenBatchNorm2d):
        module.eps = 0.0
state = model.state_dict()
for name, tensor in state.items():
    low, high = bounds(name, tuple(tensor.shape))
    values = low + (high - low) * hashed(name, tensor.numel())
    tensor.copy_(torch.from_numpy(values.astype(np.float32)).reshape(tensor.shape))
model.load_state_dict(state); model.eval()
if args.save_pth:
    torch.save(model.state_dict(), args.save_pth)
image = torch.from_numpy(np.asarray(Image.open(args.image).convert("RGB")).copy()).permute(2, 0, 1).float() / 255
golden = {}
with torch.no_grad():
    images, _ = model.transform([image])
    features = model.backbone(images.tensors)
    proposals, _ = model.rpn(images, features)
    raw, _ = model.roi_heads(features, proposals, images.image_sizes)
    golden["input"] = np.array(images.tensors.shape + tuple(images.image_sizes[0]), dtype=np.int64)
    golden["pixels"] = images.tensors.flatten()[::9973].numpy()
    for name, level in features.items():
        golden[f"features.{name}"] = level.flatten()[::max(1, level.numel() // 2000)].numpy()
    golden["proposals"] = proposals[0].numpy()
    golden["boxes"], golden["scores"] = raw[0]["boxes"].numpy(), raw[0]["scores"].numpy()
    golden["labels"] = raw[0]["labels"].numpy()
for name, value in golden.items():
    print(name, value.shape, value[:3] if value.ndim == 1 else value[:2])
print({k: float(v.std()) for k, v in features.items()}, len(np.unique(golden["labels"])))
save_file({k: np.ascontiguousarray(v) for k, v in golden.items()}, args.out)
