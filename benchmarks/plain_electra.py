"""ELECTRA pre-training as it is written today in a page of transformers: what ours is measured against.

Both networks as transformers brings them, embeddings shared, the generator's LM head and softmax at all positions,
samples by `torch.multinomial`, the discriminator's loss by its own `labels`. Nothing in it is slow on purpose.
"""

import torch
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining


class PlainElectra(nn.Module):
    """Generator and discriminator with shared embeddings.

    Args:
        generator, discriminator: their configurations.
        mask_token_id, special_token_ids: of the tokenizer.
        mlm_probability: share of the tokens that is chosen, each on its own.
    """

    def __init__(
        self,
        generator: ElectraConfig,
        discriminator: ElectraConfig,
        mask_token_id: int,
        special_token_ids: list[int],
        mlm_probability: float = 0.15,
    ) -> None:
        super().__init__()
        self.generator = ElectraForMaskedLM(generator)
        self.discriminator = ElectraForPreTraining(discriminator)
        self.discriminator.electra.embeddings = self.generator.electra.embeddings
        self.mask_token_id, self.mlm_probability = mask_token_id, mlm_probability
        self.special_token_ids = nn.Buffer(torch.tensor(special_token_ids))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The joint loss, (); input_ids and attention_mask int64 (B, L)."""
        may_be_chosen = attention_mask.bool() & ~torch.isin(input_ids, self.special_token_ids)
        chosen = may_be_chosen & (torch.rand(input_ids.shape, device=input_ids.device) < self.mlm_probability)
        masked = input_ids.masked_fill(chosen, self.mask_token_id)
        labels = input_ids.masked_fill(~chosen, -100)
        generated = self.generator(input_ids=masked, attention_mask=attention_mask, labels=labels)
        with torch.no_grad():
            probabilities = generated.logits.float().softmax(dim=2)
            sampled = torch.multinomial(probabilities.flatten(0, 1), 1).view_as(input_ids)
        corrupted = torch.where(chosen, sampled, input_ids)
        judged = self.discriminator(
            input_ids=corrupted, attention_mask=attention_mask, labels=(corrupted != input_ids).long()
        )
        loss: Tensor = generated.loss + 50.0 * judged.loss
        return loss
