"""Diagnostics: signs that a model only looks robust, and the attacks to add for each of them."""
