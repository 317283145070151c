"""Memories that predict: what comes next in a text, and a lossless coder that is as good as the prediction."""

from assocmem.predictors.coder import decode, encode
from assocmem.predictors.knn_lm import KNNLM, next_token_states
from assocmem.predictors.predictor import Mixture, Predictor, Reader, Uniform, read

__all__ = ["KNNLM", "Mixture", "Predictor", "Reader", "Uniform", "decode", "encode", "next_token_states", "read"]
