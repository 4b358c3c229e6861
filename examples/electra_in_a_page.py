"""ELECTRA pre-training in a page of transformers, to read before the toolkit.

    python examples/electra_in_a_page.py                      Python's own documentation, 200 steps
    python examples/electra_in_a_page.py text.txt --steps 2000

The toolkit differs in three things:

- its LM head sees the chosen positions only, 15 % of the rows of the largest matrix product of the step;
- it masks an exact share of every row, draws all randomness from (seed, position), and so resumes bit for bit;
- its losses are its own: transformers' loss of the discriminator counts padding where labels hold -100.
"""

import argparse
from pathlib import Path
from pydoc_data.topics import topics

import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining


class PlainElectra(nn.Module):
    """Generator and discriminator with shared embeddings, written without any trick.

    Args:
        generator, discriminator: their configurations; both have one embedding size.
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
        self.mask_token_id = mask_token_id
        self.mlm_probability = mlm_probability
        self.special_token_ids = nn.Buffer(torch.tensor(special_token_ids))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the joint loss, (); `input_ids` and `attention_mask` are int64 (B, L)."""
        # Mask.
        may_be_chosen = attention_mask.bool() & ~torch.isin(input_ids, self.special_token_ids)
        chosen = may_be_chosen & (torch.rand(input_ids.shape, device=input_ids.device) < self.mlm_probability)
        masked = input_ids.masked_fill(chosen, self.mask_token_id)
        labels = input_ids.masked_fill(~chosen, -100)
        # Generate.
        generated = self.generator(input_ids=masked, attention_mask=attention_mask, labels=labels)
        # Replace. A sample that equals the original counts as original.
        with torch.no_grad():
            probabilities = generated.logits.float().softmax(dim=2)
            sampled = torch.multinomial(probabilities.flatten(0, 1), 1).view_as(input_ids)
        corrupted = torch.where(chosen, sampled, input_ids)
        # Discriminate.
        judged = self.discriminator(
            input_ids=corrupted, attention_mask=attention_mask, labels=(corrupted != input_ids).long()
        )
        loss: Tensor = generated.loss + 50.0 * judged.loss
        return loss


def main() -> None:
    parser = argparse.ArgumentParser(description="Pre-train a tiny ELECTRA.")
    parser.add_argument("text", nargs="?", type=Path, help="a text file; without it, Python's documentation")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path("output/electra_in_a_page"))
    arguments = parser.parse_args()
    torch.manual_seed(42)

    text = arguments.text.read_text(encoding="utf-8") if arguments.text else "\n".join(topics.values())
    lines = [line for line in text.splitlines() if line.strip()]
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator(lines, vocab_size=4000, show_progress=False)
    special = [tokenizer.token_to_id(token) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    _, _, cls, sep, mask = special

    tokens = torch.tensor([token for line in lines for token in tokenizer.encode(line, add_special_tokens=False).ids])
    length = 128
    rows = tokens[: len(tokens) // (length - 2) * (length - 2)].view(-1, length - 2)
    edges = torch.ones(len(rows), 1, dtype=torch.int64)
    rows = torch.cat([cls * edges, rows, sep * edges], dim=1)  # (N, L)

    sizes = {"vocab_size": tokenizer.get_vocab_size(), "embedding_size": 128, "num_hidden_layers": 4}
    discriminator = ElectraConfig(hidden_size=128, num_attention_heads=2, intermediate_size=512, **sizes)
    generator = ElectraConfig(hidden_size=64, num_attention_heads=1, intermediate_size=256, **sizes)
    model = PlainElectra(generator, discriminator, mask, special)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 20, 1 - step / (arguments.steps + 1))
    )
    for step in range(arguments.steps):
        batch = rows[torch.randint(len(rows), (16,))]
        loss = model(batch, torch.ones_like(batch))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % 20 == 0:
            print(f"step {step:5d}  loss {loss.item():.3f}")
    model.discriminator.save_pretrained(arguments.output)
    print(f"the discriminator is in {arguments.output}: AutoModel.from_pretrained('{arguments.output}')")


if __name__ == "__main__":
    main()
