"""Which words look wrong? A page that marks the tokens of a text that look replaced to an ELECTRA discriminator.

    pip install -r requirements.txt
    python app.py
    MODEL=output/quickstart python app.py

MODEL is a run, a folder of a discriminator or the Hub id of one; by default tiny-en, the small English network of the
package.
"""

import os

import gradio as gr

from electra import replaced_token_probabilities
from electra.model.pretrained import load_networks

MODEL = os.environ.get("MODEL", "tiny-en")
EXAMPLES = (
    "The function returns the number of items in the container.",
    "The function returns the number of items in the evening.",
)


def make_page(model: str = MODEL) -> gr.Blocks:
    """Return the page. The network is loaded once."""
    networks = load_networks(model)

    def mark(text: str) -> list[tuple[str, float | None]]:
        """Return the text in pieces, each with its probability of being replaced, None between the tokens."""
        pieces: list[tuple[str, float | None]] = []
        end = 0
        for token in replaced_token_probabilities(text, networks.discriminator, networks.tokenizer)[0]:
            if token.start > end:
                pieces.append((text[end : token.start], None))
            pieces.append((text[token.start : token.end], token.probability))
            end = token.end
        return [*pieces, (text[end:], None)]

    with gr.Blocks(title="Which words look wrong?") as page:
        gr.Markdown("# Which words look wrong?\nThe redder a piece, the more it looks replaced.")
        text = gr.Textbox(label="Text", lines=4, value=EXAMPLES[1])
        button = gr.Button("Mark", variant="primary")
        marked = gr.HighlightedText(label="Probability of being replaced", color_map={}, show_legend=True)
        gr.Examples([[example] for example in EXAMPLES], inputs=text)
        page.load(mark, inputs=text, outputs=marked, api_name=False)
        button.click(mark, inputs=text, outputs=marked, api_name="mark")
        text.submit(mark, inputs=text, outputs=marked, api_name=False)
    return page


if __name__ == "__main__":
    make_page().launch()
