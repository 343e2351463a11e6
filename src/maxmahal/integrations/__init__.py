"""Connections to other libraries, one file each; a library is imported only when its file is used.

hub           Classifier.from_pretrained, save_pretrained and push_to_hub: Hugging Face Hub
timm          models by name: timm:resnet18
torchvision   models by name: torchvision:resnet18
robustbench   models by name: robustbench:cifar10/Linf/Carmon2019Unlabeled
torchmetrics  RobustAccuracy, a metric
lightning     LogRobustAccuracy, a callback
wandb         curves of training and evaluation, beside TensorBoard's
"""
