"""What tells one network from another: the values of configurations."""

from transformers import ElectraConfig

from electra.core.configuration import CAUSAL_KEY
from electra.model.pretrained import NOT_OF_NETWORK, different_values


def test_networks_are_equal_wherever_they_were_made_and_whatever_a_call_returns():
    for name in (
        *("_name_or_path", "architectures", "dtype", "pretraining_step", "pretraining_positions"),
        *("use_cache", "output_attentions", "output_hidden_states", "return_dict"),
    ):
        config = ElectraConfig()
        values = {"_name_or_path": "a", "architectures": ["A"], "dtype": "float16"}
        values |= {"use_cache": False, "return_dict": False}
        setattr(config, name, values.get(name, True))
        assert config.to_dict()[name] != ElectraConfig().to_dict().get(name) and name in NOT_OF_NETWORK
        assert different_values(ElectraConfig(), config) == {}
    assert different_values(ElectraConfig(), ElectraConfig(hidden_size=7)) == {"hidden_size": (256, 7)}
    assert different_values(ElectraConfig(), ElectraConfig(**{CAUSAL_KEY: True})) == {CAUSAL_KEY: (None, True)}
