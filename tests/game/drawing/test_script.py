"""Modules of JavaScript become one script, or an error gives the reason."""

import pytest
from octofold_game.drawing.viewer.script import bundle


def test_a_module_appears_once_and_before_all_that_import_it() -> None:
    modules = {
        "entry.js": 'import { twice } from "./math.js";\nimport { say } from "./words.js";\nsay(twice(2));\n',
        "words.js": '/** Says things. */\n\nimport { twice } from "./math.js";\n'
        "export const say = (text) => console.log(text, twice(1));\n",
        "math.js": "export function twice(number) {\n  // as all know\n  return 2 * number;\n}\n",
        "unused.js": "throw new Error();\n",
    }
    script = bundle(modules, "entry.js")
    assert script.count("function twice") == 1
    assert script.index("of_math =") < script.index("of_words =") < script.index("of_entry =")
    assert "const { twice } = of_math;" in script
    assert "return { say };" in script
    for left_out in ("import", "export", "Says things", "as all know", "throw"):
        assert left_out not in script


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('import * as all from "./other.js";\n', "entry.js: 'import' is an import or"),
        ("export default 5;\n", "entry.js: 'export' is an import or"),
        ('const later = () => import("./other.js");\n', r"entry.js: 'import\(' is an import or"),
        ('import { again } from "./entry.js";\n', "entry.js imports itself through entry.js"),
    ],
)
def test_an_import_or_export_that_a_single_script_cannot_contain_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bundle({"entry.js": text, "other.js": ""}, "entry.js")
