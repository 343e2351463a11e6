"""Published results: tables, claims, figures and model cards, from a folder of summaries and nothing else."""
