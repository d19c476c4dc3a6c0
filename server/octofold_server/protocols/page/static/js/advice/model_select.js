/** A chooser of models. */

import { grouped, make } from "../dom.js";

let count = 0;

/** The identity of a model, for an `<option>`: its name and version. */
export const keyOf = (model) => `${model.name}/${model.version}`;

/**
 * Make a labelled chooser.
 *
 * @param {string} title
 * @param {object[]} models the first one is chosen at the start, unless `none` is given
 * @param {{none?: string, on: () => void, first?: number}} options the text for no model; the listener; which
 *   model is chosen at the start
 * @returns {{label: HTMLElement, chosen: object|undefined}}
 */
export function modelSelect(title, models, { none, on, first = 0 }) {
  const id = `model-${(count += 1)}`;
  const options = models.map((model, i) =>
    make("option", { value: keyOf(model), selected: none === undefined && i === first }, titleOf(model)),
  );
  if (none !== undefined) options.unshift(make("option", { value: "" }, none));
  if (!options.length) options.push(make("option", { value: "" }, "no model is ready"));
  const select = make("select", { id, on: { change: on } }, ...options);
  return {
    label: make("label.picker", { for: id }, make("span", {}, title), select),
    get chosen() {
      return models.find((model) => keyOf(model) === select.value);
    },
  };
}

function titleOf(model) {
  const average = model.average ? `, ${grouped(model.average / 1000)}k points` : "";
  return `${model.name} ${model.version}${average}`;
}
