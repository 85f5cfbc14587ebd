"""`tools/house.py` on a small made-up tree: every rule is broken once, and each breach is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.house import LINES_MAX, MODULES_IN_A_FOLDER_MAX, House, import_cycles, inspected, main, sources_below


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "src/panewise/__init__.py", '"""A package."""\n')
    write(tmp_path, "src/panewise/windows.py", "class Window:\n    pass\n")
    write(tmp_path, "src/panewise/engine/__init__.py", "")
    write(tmp_path, "src/panewise/engine/books.py", "from panewise.windows import Window\n")
    write(tmp_path, "papers/__init__.py", "")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def house_of(root: Path) -> House:
    return inspected(sources_below(root / "src" / "panewise"))


def test_a_tree_that_keeps_the_rules(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(root) == 0
    assert capsys.readouterr().out == (
        "4 lines, 4 files, median 1, longest 2, widest folder 1, modules in import cycles 0, type switches 0, "
        "basenames twice 0, class names twice 0\n"
    )


def test_a_breach_is_printed_and_fails_the_check(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "src/panewise/long.py", "\n" * (LINES_MAX + 1))
    assert main(root) == 1
    assert f"panewise/long.py: {LINES_MAX + 1} lines, more than {LINES_MAX}" in capsys.readouterr().out.splitlines()


def test_a_file_of_exactly_the_limit_is_allowed(root: Path) -> None:
    write(root, "src/panewise/long.py", "\n" * LINES_MAX)
    assert house_of(root).breaches() == []


def test_a_cycle_for_types_alone_is_found(root: Path) -> None:
    types = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from panewise.engine.books import Books\n"
    write(root, "src/panewise/windows.py", types)
    cycle = {"panewise.windows", "panewise.engine.books"}
    assert house_of(root).cycles == [cycle]
    assert house_of(root).breaches() == ["an import cycle of 2 modules: panewise.engine.books, panewise.windows"]


def test_an_import_from_the_package_counts_as_one_of_its_face(root: Path) -> None:
    write(root, "src/panewise/engine/__init__.py", "def f():\n    from panewise.engine.books import Books\n")
    assert house_of(root).cycles == []
    write(root, "src/panewise/engine/books.py", "from panewise.engine import statements\n")
    write(root, "src/panewise/engine/statements.py", "")
    assert house_of(root).cycles == [{"panewise.engine", "panewise.engine.books"}]


def test_a_cycle_of_plain_imports_and_one_beside_it(root: Path) -> None:
    write(root, "src/panewise/one.py", "import panewise.two\n")
    write(root, "src/panewise/two.py", "import panewise.three as third\n")
    write(root, "src/panewise/three.py", "import panewise.one\nfrom panewise.engine.books import Books\n")
    write(root, "src/panewise/windows.py", "from panewise.engine.books import Books\n")
    assert house_of(root).cycles == [
        {"panewise.engine.books", "panewise.windows"},
        {"panewise.one", "panewise.three", "panewise.two"},
    ]


def test_a_cycle_among_the_papers_fails_the_check(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "papers/golab.py", "from papers.krishnamurthy import answers\n")
    write(root, "papers/krishnamurthy.py", "from papers.golab import rows\n")
    assert import_cycles(sources_below(root / "papers")) == [{"papers.golab", "papers.krishnamurthy"}]
    assert main(root) == 1
    assert "an import cycle of 2 modules: papers.golab, papers.krishnamurthy" in capsys.readouterr().out


def test_a_wide_folder(root: Path) -> None:
    for number in range(MODULES_IN_A_FOLDER_MAX):
        write(root, f"src/panewise/engine/part_{number}.py", "")
    assert house_of(root).breaches() == [f"panewise/engine: {MODULES_IN_A_FOLDER_MAX + 1} modules, more than 20"]


def test_basenames_and_class_names_that_stand_twice(root: Path) -> None:
    write(root, "src/panewise/engine/windows.py", "def f():\n    class Window:\n        pass\n")
    house = house_of(root)
    assert house.breaches() == [
        "windows.py: a file in panewise/engine and in panewise",
        "Window: a class in panewise/engine/windows.py and in panewise/windows.py",
    ]
    assert house.summary().endswith("basenames twice 1, class names twice 1")


def test_a_class_may_be_named_as_its_contract(root: Path) -> None:
    write(root, "src/panewise/engine/contracts.py", "class Window(Protocol[Row]):\n    pass\n")
    house = house_of(root)
    assert house.breaches() == []
    assert house.summary().endswith("class names twice 1")


def test_a_type_switch(root: Path) -> None:
    write(root, "src/panewise/engine/books.py", "def f(one):\n    return isinstance(one, (int, SlicedRows))\n")
    assert house_of(root).breaches() == []
    write(root, "src/panewise/engine/books.py", "def f(one):\n    return isinstance(one, (int, DenseSlices))\n")
    assert house_of(root).breaches() == ["panewise/engine/books.py:2: a type switch"]
