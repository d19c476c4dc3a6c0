/** A chooser of models. */

import { contentOf, keyOf, loadingText } from "../ask/models.js";
import { announce, grouped, make } from "../../viewer/dom.js";

let count = 0;

/**
 * Make a labeled chooser, which follows the changes of the list of models.
 *
 * @param {string} title
 * @param {import("../ask/models.js").Models} models
 * @param {{none?: string, on: () => void, first?: object, without?: () => object|undefined}} options `none`
 *   is the text for no model; `on` is called after every change of the choice, also if the chosen model was removed;
 *   `first` is the initial model; `without` returns a model that cannot be chosen: a model must not judge itself
 * @returns {{label: HTMLElement, chosen: object|undefined, update: () => void}} call `update` when the result of
 *   `without` has changed
 */
export function modelSelect(title, models, { none, on, first, without = () => undefined }) {
  const id = `model-${(count += 1)}`;
  let chosen = first;
  const select = make("select", { id, on: { change: choose } });

  function choose() {
    chosen = models.all.find((model) => keyOf(model) === select.value);
    on();
  }

  function show() {
    const other = without();
    const offered = models.all.filter((model) => !other || keyOf(model) !== keyOf(other));
    const options = offered.map((model) => make("option", { value: keyOf(model) }));
    if (none !== undefined) options.unshift(make("option", { value: "" }, none));
    if (!options.length) options.push(make("option", { value: "" }, "no model is ready"));
    if (chosen && other && keyOf(chosen) === keyOf(other)) chosen = undefined;
    select.replaceChildren(...options);
    select.value = chosen ? keyOf(chosen) : "";
    showLoading();
  }

  /** Show the loading progress of the models, also while the list is open. */
  function showLoading() {
    for (const option of select.options) {
      const model = models.all.find((each) => keyOf(each) === option.value);
      if (model) option.textContent = titleOf(model);
      if (model && chosen && keyOf(model) === keyOf(chosen)) chosen = model;
    }
  }

  function follow() {
    const before = chosen;
    const fallback = none === undefined ? models.first : undefined;
    chosen = before ? (models.successorOf(before) ?? fallback) : fallback;
    show();
    if (contentOf(chosen) === contentOf(before)) return;
    if (before && (!chosen || keyOf(chosen) !== keyOf(before))) {
      announce(`${before.name} ${before.version} is no longer served.`);
    }
    on();
  }

  show();
  models.addEventListener("change", follow);
  models.addEventListener("loading", showLoading);
  return {
    label: make("label.picker", { for: id }, make("span", {}, title), select),
    update: show,
    get chosen() {
      return chosen;
    },
  };
}

function titleOf(model) {
  const average = model.average ? `${grouped(model.average / 1000)}k` : "";
  const more = loadingText(model) || average;
  return `${model.name} ${model.version}${more && ` · ${more}`}`;
}
