"""A training loop as users of timm write it; it knows nothing of compile-api."""

import sys

import timm
import timm.loss
import timm.optim
import timm.utils
import torch

torch.manual_seed(0)
model = timm.create_model("resnet10t", num_classes=4, pretrained=False)
optimizer = timm.optim.create_optimizer_v2(model, opt="sgd", lr=0.05, momentum=0.9)
ema = timm.utils.ModelEmaV2(model, decay=0.9)
loss_function = timm.loss.LabelSmoothingCrossEntropy()
if "--compile" in sys.argv:
    model = torch.compile(model)
losses = []
for step in range(4):
    images, labels = torch.randn(4, 3, 64, 64), torch.tensor([0, 1, 2, 3])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled="--amp" in sys.argv):
        loss = loss_function(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update(model)
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    accuracy = timm.utils.accuracy(model(images), labels)[0].item()
print("losses", losses)
print("keys", list(model.state_dict())[:2], accuracy >= 0)
