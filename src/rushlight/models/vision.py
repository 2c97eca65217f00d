"""Image models. Names of parameters are torchvision's."""
from __future__ import annotations

from collections import OrderedDict
from functools import partial

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class LeNet(nn.Module):
    """LeNet-5 (LeCun et al. 1998) with ReLU and max pooling, for 28x28 images of one channel."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


# ---------------------------------------------------------------------------------------------------------------- ResNet
class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs, width, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, width, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, width * 4, 1, bias=False), nn.BatchNorm2d(width * 4)
        self.relu, self.downsample = nn.ReLU(inplace=True), downsample

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    """Residual networks (He et al. 2015)."""

    def __init__(self, block, layers, num_classes=1000):
        super().__init__()
        self.inputs = 64
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = self._layer(block, 64, layers[0]), self._layer(block, 128, layers[1], 2)
        self.layer3, self.layer4 = self._layer(block, 256, layers[2], 2), self._layer(block, 512, layers[3], 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(512 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d): nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def _layer(self, block, width, count, stride=1):
        downsample, wide = None, width * block.expansion
        if stride != 1 or self.inputs != wide: downsample = nn.Sequential(nn.Conv2d(self.inputs, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        blocks = [block(self.inputs, width, stride, downsample)]
        self.inputs = wide
        return nn.Sequential(*blocks, *(block(wide, width) for _ in range(count - 1)))

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def resnet18(**options):
    """ResNet-18; options: num_classes."""
    return ResNet(BasicBlock, (2, 2, 2, 2), **options)


def resnet50(**options):
    """ResNet-50; options: num_classes."""
    return ResNet(Bottleneck, (3, 4, 6, 3), **options)


# ------------------------------------------------------------------------------------------------------------ MobileNetV2
class ConvNormActivation(nn.Sequential):
    def __init__(self, inputs, outputs, kernel=3, stride=1, groups=1):
        super().__init__(nn.Conv2d(inputs, outputs, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        layers = [] if expand == 1 else [ConvNormActivation(inputs, hidden, 1)]
        layers += [ConvNormActivation(hidden, hidden, 3, stride, groups=hidden), nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.conv = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x): return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """Inverted residuals with linear bottlenecks (Sandler et al. 2018)."""

    def __init__(self, num_classes=1000, width_mult=1.0, dropout=0.2):
        super().__init__()
        def channels(n):                                        # a multiple of 8 that is no more than a tenth less
            n *= width_mult
            rounded = max(8, int(n + 4) // 8 * 8)
            return rounded + 8 if rounded < 0.9 * n else rounded
        features, inputs = [ConvNormActivation(3, channels(32), stride=2)], channels(32)
        for expand, width, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
            for i in range(count):
                features.append(InvertedResidual(inputs, channels(width), stride if i == 0 else 1, expand))
                inputs = channels(width)
        last = max(1280, channels(1280))
        self.features = nn.Sequential(*features, ConvNormActivation(inputs, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d): nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
                nn.init.zeros_(m.bias)

    def forward(self, x): return self.classifier(F.adaptive_avg_pool2d(self.features(x), (1, 1)).flatten(1))


def mobilenet_v2(**options):
    """MobileNetV2; options: num_classes, width_mult, dropout."""
    return MobileNetV2(**options)


# -------------------------------------------------------------------------------------------------------------------- ViT
class EncoderBlock(nn.Module):
    def __init__(self, heads, width, hidden, dropout, norm):
        super().__init__()
        self.ln_1, self.self_attention, self.dropout = norm(width), nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True), nn.Dropout(dropout)
        self.ln_2 = norm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.dropout(self.self_attention(y, y, y, need_weights=False)[0])
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, length, layers, heads, width, hidden, dropout, norm):
        super().__init__()
        self.pos_embedding = nn.Parameter(rl.empty(1, length, width).normal_(std=0.02))
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(OrderedDict((f"encoder_layer_{i}", EncoderBlock(heads, width, hidden, dropout, norm)) for i in range(layers)))
        self.ln = norm(width)

    def forward(self, x): return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """An image is worth 16x16 words (Dosovitskiy et al. 2020)."""

    def __init__(self, image_size, patch_size, num_layers, num_heads, hidden_dim, mlp_dim, dropout=0.0, num_classes=1000):
        super().__init__()
        if image_size % patch_size: raise ValueError(f"an image of {image_size} does not divide into patches of {patch_size}")
        self.image_size, self.patch_size = image_size, patch_size
        self.conv_proj = nn.Conv2d(3, hidden_dim, patch_size, patch_size)
        self.class_token = nn.Parameter(rl.zeros(1, 1, hidden_dim))
        self.encoder = Encoder((image_size // patch_size) ** 2 + 1, num_layers, num_heads, hidden_dim, mlp_dim, dropout, partial(nn.LayerNorm, eps=1e-6))
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, num_classes)))
        nn.init.zeros_(self.heads.head.weight)
        nn.init.zeros_(self.heads.head.bias)

    def forward(self, x):
        if x.shape[-2:] != (self.image_size, self.image_size): raise ValueError(f"Wrong image size! Expected {self.image_size} but got {tuple(x.shape[-2:])}")
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = rl.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
        return self.heads(self.encoder(x)[:, 0])


def vit_b_16(**options):
    """ViT-B/16 of 224x224 images; options: num_classes, and any of VisionTransformer's sizes."""
    return VisionTransformer(**{**dict(image_size=224, patch_size=16, num_layers=12, num_heads=12, hidden_dim=768, mlp_dim=3072), **options})


# ------------------------------------------------------------------------------------------------------------------ U-Net
class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        layers = []
        for a in (inputs, outputs): layers += [nn.Conv2d(a, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """U-Net (Ronneberger et al. 2015), padded, so that the output has the input's size."""

    def __init__(self, inputs=3, outputs=1, widths=(64, 128, 256, 512)):
        super().__init__()
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip((inputs, *widths), widths))
        self.bottom = DoubleConv(widths[-1], widths[-1] * 2)
        self.up = nn.ModuleList(nn.ConvTranspose2d(w * 2, w, 2, 2) for w in reversed(widths))
        self.join = nn.ModuleList(DoubleConv(w * 2, w) for w in reversed(widths))
        self.head = nn.Conv2d(widths[0], outputs, 1)

    def forward(self, x):
        skipped = []
        for block in self.down:
            x = block(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, join, other in zip(self.up, self.join, reversed(skipped)):
            x = up(x)
            if x.shape[-2:] != other.shape[-2:]: x = F.interpolate(x, other.shape[-2:])      # an odd size lost a row on its way down
            x = join(rl.cat([other, x], 1))
        return self.head(x)
