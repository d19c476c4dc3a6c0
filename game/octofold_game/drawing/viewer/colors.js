/** Colors of the theme, for what is drawn on a canvas. */

import { make } from "./dom.js";

const probes = {};

/** A custom property as a color that a canvas understands, for the theme of the moment. */
export function colorOf(property) {
  probes[property] ??= document.body.appendChild(make("span", { hidden: true, "aria-hidden": "true" }));
  probes[property].style.color = `var(${property})`;
  return getComputedStyle(probes[property]).color;
}
