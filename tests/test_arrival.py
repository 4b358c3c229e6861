"""What people and assistants find first: site, lock file, Space, job, and the files that describe the package."""

import importlib.util
import re
import runpy
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
import yaml

from electra.pretraining.options import parse_pretraining_arguments
from electra.tools.commands import VERBS
from tests.helpers import ROOT, parametrize
from tests.tasks.minimal_pairs.networks import write_run


@pytest.mark.slow
def test_the_pages_are_a_site_without_dead_links(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    start = (tmp_path / "site" / "index.html").read_text()
    assert "Pre-train" in start and 'href="results/' in start
    results = (tmp_path / "site" / "results" / "index.html").read_text()
    assert "/blob/main/docs/studies/log/log.md" in results  # what is no page is in the repository
    assert {"search", "python", "changelog"} <= {path.name for path in (tmp_path / "site").iterdir()}
    assert not (tmp_path / "site" / "studies" / "log").exists()  # the raw log is no part of the site and its search


@pytest.fixture
def hooks():
    """The module of the site's hooks, which mkdocs loads by its path."""
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs" / "site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_options_are_not_broken_at_their_hyphens(hooks):
    page = "<code>a --b_c 1</code><code>d_e</code><pre><code># --f</code></pre>"
    assert hooks.on_page_content(page, None, None, None) == (
        '<code>a <span class="word">--b_<wbr>c</span> 1</code><code>d_<wbr>e</code>'
        '<pre><code># <span class="word">--f</span></code></pre>'
    )
    shell = '<pre>a<span class="w"> </span>{}</pre>'
    content = hooks.on_page_content(shell.format("--b_c"), None, None, None)
    assert content == shell.format('<span class="word">--b_<wbr>c</span>')


def test_long_names_in_a_table_may_be_broken_behind_their_parts(hooks):
    content = hooks.on_page_content('<table><td><a href="x/y_z">a/b_c.py</a></table> d_e', None, None, None)
    assert content == '<table><td><a href="x/y_z">a/<wbr>b_<wbr>c.py</a></table> d_e'


def test_links_lead_to_pages_or_to_the_repository_and_a_dead_one_ends_the_build(hooks):
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    class Config:
        repo_url = "https://example.org/repo"

    def rewritten(text, name="glue.md"):
        page = SimpleNamespace(file=File(name, "docs", "site", use_directory_urls=True), meta={})
        return hooks.on_page_markdown(text, page, Config, None)

    assert rewritten("[a](results.md#quickstart) [b](#c)") == "[a](results.md#quickstart) [b](#c)"
    assert rewritten("[a](../README.md#links)") == "[a](index.md#links)"
    study = "studies/start.md"
    assert rewritten("[a](../results.md) [b](../../README.md) [c](speed.md)", study) == (
        "[a](../results.md) [b](../index.md) [c](speed.md)"
    )
    raw = "https://example.org/repo/blob/main/docs/studies/log/log.md"
    assert rewritten("[a](log/log.md#b)", study) == rewritten("[a](studies/log/log.md#b)") == f"[a]({raw}#b)"
    assert rewritten("[a](studies)") == "[a](https://example.org/repo/blob/main/docs/studies)"  # a folder
    assert rewritten("[a](../Makefile)") == "[a](https://example.org/repo/blob/main/Makefile)"
    with pytest.raises(PluginError, match="links to nothing"):
        rewritten("[a](nothing.md)")


def test_the_version_is_the_same_everywhere():
    released = re.search(r"^## \[(\d.*?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    assert {
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
        yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"],
        next(package["version"] for package in packages if package["name"] == "electra"),
    } == {released}


@parametrize("name", ["skills/electra/SKILL.md", "examples/hf_job.py", "examples/space/requirements.txt"])
def test_the_address_of_the_repository_is_that_of_the_site(name):
    address = re.search(r"^repo_url: https://(\S+)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)[1]
    assert set(re.findall(r"git\+https://([\w./-]+)", (ROOT / name).read_text())) == {address}


def test_the_lock_file_has_the_tested_versions():
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    locked = {package["name"]: package.get("version") for package in packages}
    pinned = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert len(pinned) > 20
    assert {name: locked[name.lower().replace("_", "-")] for name, _ in pinned} == dict(pinned)


def test_the_skill_is_short_and_names_commands_and_pages_that_exist():
    text = (ROOT / "skills" / "electra" / "SKILL.md").read_text()
    _, front, body = text.split("---\n", 2)
    assert yaml.safe_load(front).keys() == {"name", "description"} and len(text.splitlines()) < 200
    verbs = set(re.findall(r"`electra ([a-z]+)", body)) | set(re.findall(r"^electra ([a-z]+)", body, re.MULTILINE))
    assert verbs and verbs <= VERBS.keys()
    pages = re.findall(r"(?:docs|configs)/[\w/]+\.\w+", body)
    assert pages and all((ROOT / page).exists() for page in pages)


@pytest.mark.slow
def test_a_job_pretrains_and_pushes_only_with_a_token(tmp_path, copying):
    options = "--max_steps 2 --max_length 16 --vocab_size 600 --per_device_train_batch_size 2 --use_cpu"
    options += " --dataset_sampling 0.03 --max_eval_segments 20"
    command = [copying, str(ROOT / "examples" / "hf_job.py"), *options.split(), "--output_dir", str(tmp_path)]
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    completed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert completed.returncode == 0, completed.stderr
    assert list(tmp_path.glob("*/discriminator/model.safetensors"))
    script = (ROOT / "examples" / "hf_job.py").read_text()
    metadata = re.search(r"# /// script\n(.*?)# ///", script, re.DOTALL)[1]
    header = re.sub("^# ", "", metadata, flags=re.MULTILINE)
    assert "electra @" in tomllib.loads(header)["dependencies"][0]


@parametrize(
    ("words", "pushes", "is_private"),
    [
        ([], True, True),
        (["--hub_private_repo", "false"], True, False),
        (["--push_to_hub", "--hub_private_repo=false"], True, False),
        (["--push_to_hub=false"], False, True),
    ],
)
def test_the_options_of_a_job_win_over_its_own(words, pushes, is_private):
    with_upload = runpy.run_path(str(ROOT / "examples" / "hf_job.py"))["with_upload"]
    training = parse_pretraining_arguments(with_upload(["--train_file", "a.txt", *words], has_token=True)).training
    assert (training.push_to_hub, training.hub_private_repo) == (pushes, is_private)
    assert with_upload(words, has_token=False) == words


@pytest.mark.slow
@parametrize("text", ["the dog sells sea shells", "the dog  sells\nsea."])
def test_the_space_marks_the_tokens_of_a_text(text, tmp_path, wordpiece_tokenizer, monkeypatch):
    monkeypatch.setenv("GRADIO_ANALYTICS_ENABLED", "False")
    from gradio_client import Client

    spec = importlib.util.spec_from_file_location("space", ROOT / "examples" / "space" / "app.py")
    space = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(space)
    page = space.make_page(str(write_run(tmp_path / "run", wordpiece_tokenizer)))
    _, address, _ = page.launch(prevent_thread_lock=True, quiet=True)
    try:
        marked = Client(address, verbose=False).predict(text, api_name="/mark")
    finally:
        page.close()
    assert "".join(piece["token"] for piece in marked) == text
    probabilities = [piece["class_or_confidence"] for piece in marked if piece["class_or_confidence"] is not None]
    assert len(probabilities) >= 5 and all(0 < probability < 1 for probability in probabilities)
