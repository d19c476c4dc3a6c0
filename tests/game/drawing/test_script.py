"""Modules of JavaScript become one script or one module, or the build says why not."""

import pytest
from octofold_game.drawing.viewer.script import in_one, with_dependencies


def test_a_module_comes_once_and_before_all_that_import_it() -> None:
    modules = {
        "entry.js": 'import { twice } from "./math.js";\nimport { say } from "./words.js";\nsay(twice(2));\n',
        "words.js": '/** Says things. */\n\nimport { twice } from "./math.js";\n'
        "export const say = (text) => console.log(text, twice(1));\n",
        "math.js": "export function twice(number) {\n  // as all know\n  return 2 * number;\n}\n",
        "unused.js": "throw new Error();\n",
    }
    script = in_one(modules, "entry.js")
    assert script.count("function twice") == 1
    assert script.index("of_math =") < script.index("of_words =") < script.index("of_entry =")
    assert "const { twice } = of_math;" in script
    assert "return { say };" in script
    for left_out in ("import", "export", "Says things", "as all know", "throw"):
        assert left_out not in script


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import * as all from "./other.js";\n', "entry.js: 'import' is of a form"),
        ("export default 5;\n", "entry.js: 'export' is of a form"),
        ('const later = () => import("./other.js");\n', r"entry.js: 'import\(' is of a form"),
        ('import { again } from "./entry.js";\n', "entry.js imports itself, by entry.js"),
    ],
)
def test_a_form_that_one_script_cannot_have_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        in_one({"entry.js": text, "other.js": ""}, "entry.js")


def test_a_module_contains_what_it_needs_and_shares_it_with_those_that_come_later() -> None:
    modules = {
        "js/main.js": 'import { open } from "./tabs/tabs.js";\nopen();\n',
        "js/tabs/tabs.js": 'import { say } from "../../words.js";\n'
        'export const open = async () => (await import("./later.js")).show(say);\n',
        "js/tabs/later.js": 'import { say, shout } from "../../words.js";\n'
        'import { draw } from "./pictures.js";\n'
        "export const show = () => draw(say, shout);\n",
        "js/tabs/pictures.js": "export const draw = (...all) => console.log(all);\n",
        "words.js": "export const say = 1; /** not a line of its own */\nexport const shout = 2;\n",
    }
    found = with_dependencies(modules, "js/main.js")
    assert found.keys() == {"js/main.js", "js/tabs/later.js", "js/tabs/pictures.js"}
    main = found["js/main.js"]
    assert main.index("of_words =") < main.index("of_js_tabs_tabs =") < main.index("of_js_main =")
    assert 'import("./tabs/later.js")' in main  # as seen from where the code is now
    assert main.endswith("export { of_words, of_js_tabs_tabs, of_js_main };\n")
    assert found["js/tabs/later.js"] == (
        'import { of_words } from "../main.js";\nconst { say, shout } = of_words;\n'
        'import { draw } from "./pictures.js";\nexport const show = () => draw(say, shout);\n'
    )
    assert found["js/tabs/pictures.js"] == modules["js/tabs/pictures.js"]


def test_a_form_that_one_module_cannot_have_is_named() -> None:
    entry = 'import { a } from "./far/a.js";\n'
    modules = {"entry.js": entry, "far/a.js": "export const a = import.meta.url;\n"}
    with pytest.raises(ValueError, match=r"far/a.js: 'import.' is of a form that one module cannot have"):
        with_dependencies(modules, "entry.js")
