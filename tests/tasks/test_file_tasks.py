"""Options of the tasks on files: configurations, names of tasks, precedence, and what is refused."""

from importlib import import_module

from electra.base.files import CONFIGS
from electra.finetuning.data import task_name
from electra.finetuning.registry import TASKS
from electra.tasks.multiple_choice.task import main as choose
from electra.tasks.multiple_choice.task import parse_choice_arguments as parse_swag
from electra.tasks.squad.task import main as squad
from electra.tasks.squad.task import parse_squad_arguments as parse_squad
from electra.tasks.tagging.task import main as tag
from electra.tasks.tagging.task import parse_tagging_arguments as parse_tagging
from electra.tools.downstream import TASKS_OF_USER
from tests.conftest import refused
from tests.helpers import parametrize
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.squad.files import flags as squad_flags
from tests.tasks.tagging.files import flags as tagging_flags

FILES = ["--pretrain_path=a", "--train_file=x/b.txt", "--validation_file=x/c.txt"]


def test_the_configurations_are_those_of_their_sources():
    google, bert, features = (
        parse_tagging([*FILES, f"--config={CONFIGS / 'tagging' / name}.yaml"])
        for name in ("google", "bert", "bert_features")
    )
    assert (bert.options.features, features.options.features) == (None, "concat_4")
    assert (google.options.scheme, google.tuning.max_length, google.tuning.product_schedule) == ("bioes", 256, True)
    assert (bert.tuning.learning_rate, bert.tuning.layerwise_lr_decay) == (3e-5, 1.0)
    swag = parse_swag(["--pretrain_path=a", f"--config={CONFIGS / 'swag' / 'bert.yaml'}"])
    assert (swag.tuning.learning_rate, swag.tuning.per_device_train_batch_size) == (2e-5, 16)
    assert (swag.options.dataset_name, swag.options.dataset_config_name) == ("allenai/swag", "regular")


@parametrize(
    ("args", "task"),
    [
        (parse_tagging(FILES), "b"),
        (parse_tagging(["--pretrain_path=a", "--train_file=x/train.conll.gz", "--validation_file=a"]), "x"),
        (parse_tagging(["--pretrain_path=a", "--train_file=x/Dev-2.tsv", "--validation_file=a"]), "x"),
        (parse_tagging([*FILES, "--task_name", "CoNLL 2003"]), "CoNLL_2003"),
        (parse_tagging([*FILES, "--task_name", ".."]), "_"),
        (parse_tagging(["--pretrain_path=a", "--train_file=ข่าว กีฬา.csv", "--validation_file=a"]), "ข่าว_กีฬา"),
        (parse_tagging(["--pretrain_path=a", "--train_file=news/old/../a", "--validation_file=a"]), "a"),
        (parse_swag(["--pretrain_path=a"]), "swag"),
    ],
)
def test_a_task_is_named_after_its_data_or_as_asked(args, task):
    assert task_name(args.options, "kind") == task


def test_the_ending_of_a_file_of_words_is_no_part_of_the_name_of_its_task():
    for ending in ("txt", "conll", "conllu", "conllup", "iob", "iob2", "bio", "bioes", "tsv", "jsonl", "parquet.gz"):
        args = parse_tagging(["--pretrain_path=a", f"--train_file=x/news.v2.{ending}", "--validation_file=a"])
        assert task_name(args.options, "kind") == "news.v2"


def test_a_file_named_like_a_split_says_nothing_of_its_task():
    for name in ("train", "training", "dev", "devel", "development", "val", "valid", "validation", "test", "eval"):
        args = parse_tagging(["--pretrain_path=a", f"--train_file=news/{name}.tsv", "--validation_file=a"])
        assert task_name(args.options, "kind") == "news"


def test_the_folder_of_a_published_task_names_it():
    args = parse_tagging(["--pretrain_path=a", "--train_file=conll2003/eng.train", "--validation_file=a"])
    assert task_name(args.options, "kind") == "eng.train"
    assert task_name(args.options, "kind", {"conll2003"}) == "conll2003"


@parametrize("parse", [parse_squad, parse_tagging, parse_swag])
def test_data_are_files_or_a_data_set(parse):
    assert parse([*FILES]).options.dataset_name is None
    assert parse(FILES[:2]).options.validation_fraction == 0.1
    for argv in ([*FILES, "--dataset_name=d"], [FILES[0], FILES[2]], [FILES[0], "--dataset_name="]):
        assert "--dataset_name" in refused(lambda argv=argv: parse(argv))


TAG = tag, tagging_flags
CHOOSE = choose, choice_flags
ASK = squad, squad_flags
NO_FILES = {"train_file": None, "validation_file": None}


@parametrize(
    ("command", "options", "named"),
    [
        (TAG, NO_FILES, "--train_file"),
        (TAG, {"label_column": 5}, "--label_column 5"),
        (TAG, {"label_column": 1, "scheme": "iob2"}, "all labels are 'X'"),
        (TAG, {"max_length": 4096}, "--max_length 4096"),
        (TAG, {"validation_file": "type.txt"}, "dev has the label 'I-ORG'"),
        (TAG, {"validation_file": "tag.txt"}, "dev has the label 'PER'"),
        (CHOOSE, NO_FILES, "data set allenai/swag"),  # the default, without a network
        (ASK, NO_FILES, "data set squad "),
        (ASK, {"max_length": 12}, "--max_length 12 "),
        (ASK, {"head": "google"}, "'google'"),
        (ASK, {"head": "joint", "save_model": True}, "--head hf"),  # the joint head has no class in transformers
    ],
)
def test_bad_options_and_files_are_one_line_and_leave_nothing(files, tmp_path, command, options, named, monkeypatch):
    main, flags = command
    monkeypatch.chdir(files / "names")
    assert named in refused(lambda: main(flags(files, output_dir=tmp_path, **options)))
    assert not list(tmp_path.glob("[!.]*"))


@parametrize("name", ["../x", "/tmp/x", "a/b", "..", ".", "a" * 201, "", "checkpoint-4", "discriminator"])
@parametrize("verb", TASKS)
def test_no_evaluation_leaves_its_output_folder(verb, name):
    main = import_module(TASKS[verb].module).main
    argv = ["--pretrain_path=a", f"--experiment_name={name}"]
    if verb in TASKS_OF_USER:
        argv += FILES[1:]
    assert "--experiment_name" in refused(lambda: main(argv))
