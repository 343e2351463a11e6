"""The paper's figures of feature space: each is computed once into a small record and drawn from the record alone."""
