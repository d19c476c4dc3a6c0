/** Colors of the theme, for drawings on a canvas. */

import { make } from "./dom.js";

const probes = {};

/** A custom property of CSS as a color for a canvas, in the current theme. */
export function colorOf(property) {
  probes[property] ??= document.body.appendChild(make("span", { hidden: true, "aria-hidden": "true" }));
  probes[property].style.color = `var(${property})`;
  return getComputedStyle(probes[property]).color;
}
