"""The user of one 24 GB GPU: watches a training run fill it, beside another notebook.

Each later capability adds its steps here. The pictures are kept, and one stands in the README.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from support.browser import gpu_env, holder, open_notebook, open_panel, run_cell, write_notebook
from support.fake_nvml import FakeNvml
from support.jupyter import JupyterServer

SETUP = """\
import os, time
from support.cuda_standin import install
gpu = install(os.environ["FAKE_NVML_STATE_FOR_KERNELS"])"""

EMBED = """\
gpu.allocate("embeddings", 3 * 2**30)"""

TRAIN = """\
gpu.allocate("model and optimizer", 2 * 2**30)
gpu.set_utilization(87)
for step in range(6):
    for layer in range(5):
        gpu.allocate(f"activations {layer}", 2**30)
        time.sleep(0.12)
    time.sleep(0.2)
    for layer in range(5):
        gpu.free(f"activations {layer}")
        time.sleep(0.08)"""

KEEP_RUNNING = """\
gpu.allocate("activations", 5 * 2**30)
while not os.path.exists("stop"):
    time.sleep(0.1)"""


MODEL = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(8000, 256), *[
    nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True) for _ in range(4)
], nn.Linear(256, 8000))
optimizer = torch.optim.AdamW(model.parameters())
batches = iter([torch.randint(0, 8000, (4, 128)) for _ in range(2)])
history = []"""

STEP = """\
%%vram
batch = next(batches)
logits = model(batch)
loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten())
loss.backward()
optimizer.step()
optimizer.zero_grad()
history.append(model(batch).mean())"""

LARGE = """\
%%vram --dry-run --gpu "RTX 4090"
import torch
from torch import nn

batch_size = 16
model = nn.Sequential(nn.Embedding(32000, 2048), *[
    nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True) for _ in range(8)
], nn.Linear(2048, 32000)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(2):
    tokens = torch.randint(0, 32000, (batch_size, 512), device="cuda")
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()"""

TIDY_STEP = STEP.replace("%%vram", "%%vram --compare leaking").replace(
    "history.append(model(batch).mean())",
    "with torch.no_grad():\n    history.append(model(batch).mean().item())",
)


@pytest.fixture(scope="module")
def lab(gpu: FakeNvml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """JupyterLab whose panel shows the last minute."""
    home = tmp_path_factory.mktemp("golden")
    settings = {"jupyter-vram:panel": {"windowSeconds": 60}}
    with JupyterServer(home, env=gpu_env(gpu), settings=settings) as server:
        yield server


@pytest.fixture
def page_watched(page: Page) -> Iterator[Page]:
    """A page whose uncaught errors fail the test."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    assert errors == []


def widen(page: Page, panel: Locator) -> None:
    """Drag the sidebar's edge, as a user does who wants to see more."""
    box = panel.bounding_box()
    assert box
    page.mouse.move(box["x"] - 1, 500)
    page.mouse.down()
    page.mouse.move(box["x"] - 110, 500, steps=5)
    page.mouse.up()


def test_golden_path(
    page_watched: Page, lab: JupyterServer, gpu: FakeNvml, shot: Callable[[str], None]
) -> None:
    page = page_watched
    write_notebook(lab, "embed.ipynb", SETUP, EMBED)
    write_notebook(lab, "train.ipynb", SETUP, TRAIN, KEEP_RUNNING, "%vram")
    leaking = STEP.replace("%%vram", "%%vram --name leaking")
    write_notebook(lab, "where.ipynb", MODEL, leaking, "history.clear()", TIDY_STEP)
    write_notebook(lab, "before.ipynb", LARGE, "'model' in globals()")

    # Another notebook holds 3 GiB.
    open_notebook(page, lab, "embed.ipynb")
    run_cell(page, 0)
    run_cell(page, 1)

    # The training notebook is watched while its cells run.
    open_notebook(page, lab, "train.ipynb")
    panel = open_panel(page)
    widen(page, panel)
    run_cell(page, 0)
    run_cell(page, 1)
    expect(holder(panel, "allocated")).to_have_text("2.0")
    expect(holder(panel, "reserved, free")).to_have_text("5.0")
    expect(holder(panel, "embed.ipynb")).to_have_text(re.compile(r"3\.[45]"))
    expect(panel.locator(".jp-Vram-owners tr.jp-Vram-own").first).to_contain_text("train.ipynb")

    # The figures move while a cell runs, and the run is marked on the time axis.
    run_cell(page, 2, wait=False)
    expect(holder(panel, "allocated")).to_have_text("7.0", timeout=10_000)
    expect(panel.locator(".annotation-text", has_text="[3] running")).to_be_visible()
    train = panel.locator(".jp-Vram-kernels tbody").filter(has_text="train.ipynb")
    expect(train.locator(".jp-Vram-tag")).to_have_text("busy")
    expect(train).to_contain_text("allocated 7.0 · reserved 7.0 · peak 7.0")
    expect(page.locator("#jupyter-vram-status")).to_contain_text(re.compile(r"GPU 0 · 11\.\d / 24"))
    shot("golden-1-watch")

    # The parts of the device add up to its total, as every client sees them.
    [device] = lab.get("jupyter-vram/api/v1/snapshot")["devices"]
    kernels = lab.get("jupyter-vram/api/v1/snapshot")["kernels"]
    parts = sum(sum(share["parts"].values()) for k in kernels for share in k["devices"])
    rest = ("other_bytes", "unattributed_bytes", "driver_reserved_bytes", "free_bytes")
    assert parts + sum(device[name] for name in rest) == device["total_bytes"]

    # A click on the other notebook's name opens it, and "this notebook" follows.
    panel.get_by_role("button", name="Open embed.ipynb").click()
    expect(panel.locator(".jp-Vram-owners tr.jp-Vram-own").first).to_contain_text("embed.ipynb")
    expect(holder(panel, "allocated")).to_have_text("3.0")
    panel.get_by_role("button", name="Open train.ipynb").click()

    # `%vram` tells the same in the notebook.
    (lab.root / "stop").touch()
    run_cell(page, 3)
    output = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-output").last
    expect(output).to_contain_text("7.00 GiB")
    shot("golden-2-vram")

    # Where did the bytes of a training step go? Each line of the cell says what it held.
    open_notebook(page, lab, "where.ipynb")
    page.keyboard.press("Control+b")  # the file browser, away
    run_cell(page, 0)
    run_cell(page, 1)
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").nth(1)
    report = cell.locator(".jp-VramReport")
    expect(report).to_contain_text("Peak", timeout=20_000)
    expect(report).to_contain_text("tensor bytes, on the CPU")
    expect(report.locator(".js-plotly-plot")).to_be_visible(timeout=20_000)
    kept = report.locator("section", has_text="Stayed alive")
    expect(kept).to_contain_text("history[0]")
    expect(kept).to_contain_text("line 8")
    tree = report.get_by_role("tree")
    expect(tree.get_by_role("treeitem").first).to_contain_text("Sequential")
    cell.scroll_into_view_if_needed()
    shot("golden-3-report")

    # The graph is not kept any more, and the comparison says what that has saved.
    run_cell(page, 2)
    run_cell(page, 3)
    second = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").nth(3)
    compared = second.locator(".jp-VramReport")
    expect(compared).to_contain_text("leaking", timeout=20_000)
    expect(compared.locator("section", has_text="Stayed alive")).not_to_contain_text("history")
    second.scroll_into_view_if_needed()
    shot("golden-4-compared")

    # Will a larger model fit? A dry run says so before anything runs: nothing of it is there.
    open_notebook(page, lab, "before.ipynb")
    run_cell(page, 0)
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").first
    estimate = cell.locator(".jp-VramReport-estimate")
    expect(estimate.locator("h2")).to_contain_text(
        re.compile(r"Dry run: .* GiB of the RTX 4090's 24.0 GiB"), timeout=40_000
    )
    expect(estimate.locator("section", has_text="Fits on")).to_contain_text("largest batch_size")
    cell.scroll_into_view_if_needed()
    shot("golden-5-dry-run")
    run_cell(page, 1)
    expect(
        page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea").last
    ).to_contain_text("False")
