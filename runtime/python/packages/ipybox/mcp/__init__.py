"""The part of ipybox that generated modules import."""
