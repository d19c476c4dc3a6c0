/** A chooser of models. */

import { keyOf } from "../ask/models.js";
import { announce, grouped, make } from "../dom.js";

let count = 0;

/**
 * Make a labeled chooser, which follows the list.
 *
 * @param {string} title
 * @param {import("../ask/models.js").Models} models the first one is chosen at the start, unless `none` is given
 * @param {{none?: string, on: () => void, first?: number}} options the text for no model; the listener, told of
 *   every other choice, also if a model has gone; which model is chosen at the start
 * @returns {{label: HTMLElement, chosen: object|undefined}}
 */
export function modelSelect(title, models, { none, on, first = 0 }) {
  const id = `model-${(count += 1)}`;
  let chosen = none === undefined ? models.all[Math.min(first, models.all.length - 1)] : undefined;
  const select = make("select", { id, on: { change: choose } });

  function choose() {
    chosen = models.all.find((model) => keyOf(model) === select.value);
    on();
  }

  function show() {
    const options = models.all.map((model) => make("option", { value: keyOf(model) }, titleOf(model)));
    if (none !== undefined) options.unshift(make("option", { value: "" }, none));
    if (!options.length) options.push(make("option", { value: "" }, "no model is ready"));
    select.replaceChildren(...options);
    select.value = chosen ? keyOf(chosen) : "";
  }

  function follow() {
    const before = chosen;
    const fallback = none === undefined ? models.all[0] : undefined;
    chosen = before ? (models.successorOf(before) ?? fallback) : fallback;
    show();
    if (JSON.stringify(chosen) === JSON.stringify(before)) return;
    if (before && (!chosen || keyOf(chosen) !== keyOf(before))) {
      announce(`${before.name} ${before.version} is no longer served.`);
    }
    on();
  }

  show();
  models.addEventListener("change", follow);
  return {
    label: make("label.picker", { for: id }, make("span", {}, title), select),
    get chosen() {
      return chosen;
    },
  };
}

function titleOf(model) {
  const average = model.average ? `, ${grouped(model.average / 1000)}k points` : "";
  return `${model.name} ${model.version}${average}`;
}
