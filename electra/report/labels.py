"""What metrics are called, in the terminal and in reports, and what they mean. No torch."""

METRIC_LABELS = {
    "generator_loss": "generator loss (nats)",
    "masked_accuracy": "generator accuracy",
    "masked_accuracy_mask_token": "generator accuracy where it saw [MASK]",
    "sampled_accuracy": "generator accuracy of its samples",
    "generator_entropy": "generator entropy (nats)",
    "replaced_rate": "replaced tokens",
    "discriminator_loss": "discriminator loss (nats)",
    "discriminator_accuracy": "discriminator accuracy",
    "discriminator_precision": "discriminator precision",
    "discriminator_recall": "discriminator recall",
    "discriminator_f1": "discriminator F1",
    "discriminator_mcc": "discriminator MCC",
    "discriminator_auc": "discriminator AUC",
    "mlm_loss": "MLM loss (nats)",
    "mlm_accuracy": "MLM accuracy",
    "all_tokens_loss": "loss at all tokens (nats)",
    "all_tokens_accuracy": "accuracy at all tokens",
    "copy_gate_accuracy": "copy gate accuracy",
    "copy_gate_auc": "copy gate AUC",
}
"""Labels of all metrics but the total loss, in the order of the table."""
METRIC_DEFINITIONS = {
    "generator_loss": "Generator loss: mean of -log q(original token) at the chosen positions; log of the vocabulary "
    "size if it knows nothing.",
    "masked_accuracy": "Generator accuracy: share of the chosen positions where its most likely token is the "
    "original. At most chosen positions it sees [MASK], at a few the token itself.",
    "sampled_accuracy": "Accuracy of its samples: share of the chosen positions where a sample equals the original. "
    "Low values are normal; these positions count as original.",
    "replaced_rate": "Replaced tokens: share of all tokens that differ from the original.",
    "discriminator_loss": "Discriminator loss: mean binary cross-entropy. Compare it with the entropy of the share of "
    "replaced tokens, which the best guess without looking at the text reaches.",
    "discriminator_recall": "Precision and recall: share of the tokens judged replaced that are, and share of the "
    "replaced tokens that are found, at probability .5. A low recall is normal early in training.",
    "discriminator_auc": "Discriminator AUC: probability that a replaced token gets a higher score than an original "
    "one; .5 is chance. It depends on the generator, so it compares runs with the same generator only.",
    "mlm_accuracy": "MLM accuracy: share of the chosen positions where the most likely token is the original.",
    "all_tokens_accuracy": "Accuracy at all tokens: the same at every position, with the copy gate applied.",
}
"""One sentence or two for each metric that a reader may not know."""


def metric_title(name: str) -> str:
    """Return the name of a metric where it stands alone."""
    return "total loss" if name == "loss" else METRIC_LABELS.get(name, name.replace("_", " "))
