"""A small zoo, in plain modules: each model is the few lines that its paper describes, with the parameter names of the usual checkpoints, so
that they load (torchvision's for the image models, transformers' for GPT-2 and BERT)."""
from .generative import DCGANDiscriminator, DCGANGenerator, VariationalAutoencoder  # noqa: F401
from .graph import GCN  # noqa: F401
from .language import GPT2, BertModel, LSTMTagger  # noqa: F401
from .vision import LeNet, MobileNetV2, ResNet, UNet, VisionTransformer, mobilenet_v2, resnet18, resnet50, vit_b_16  # noqa: F401
