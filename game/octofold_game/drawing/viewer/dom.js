/** Makes elements, and speaks to screen readers. No text ever becomes HTML. */

/**
 * Make an element.
 *
 * @param {string} tag with classes behind dots, such as `div.card.wide`
 * @param {object} properties attributes; `on` holds listeners, `style` custom properties of CSS
 * @param {...(Node|string|null)} children
 */
export function make(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.classList.add(...classes);
  const { on = {}, style = {}, ...attributes } = properties;
  for (const [event, listener] of Object.entries(on)) element.addEventListener(event, listener);
  for (const [property, value] of Object.entries(style)) element.style.setProperty(property, value);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(attribute, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(attribute, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The element with an id. */
export const byId = (id) => document.getElementById(id);

let lastSaid = "";

/** Announce a text to screen readers. */
export function announce(text) {
  const region = byId("live-region");
  // Screen readers skip a text that does not change.
  region.textContent = text === lastSaid ? `${text}\u00a0` : text;
  lastSaid = region.textContent;
}

/** Whether the user prefers reduced motion. */
export const prefersStillness = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** The time some seconds ago, for people: 2026-05-17 08:30. */
export const when = (age) => new Date(Date.now() - age * 1000).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "short" });

/** A number for people: 12,345. */
export const grouped = (number) => Math.round(number).toLocaleString("en-US");

/** A share for people: 62%, 0.4%. */
export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.1) return "<0.1%";
  return `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)}%`;
}
