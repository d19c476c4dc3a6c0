/** Moves by keys, by swipes and by dragging the mouse. */

const KEYS = { ArrowUp: 0, ArrowRight: 1, ArrowDown: 2, ArrowLeft: 3, w: 0, d: 1, s: 2, a: 3 };
const SLIDER_KEYS = new Set(["ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft", "Home", "End", "PageUp", "PageDown"]);
const SWIPE_PIXELS = 24;

/** Whether a key press is for the page, and not for a field or a browser shortcut. */
export function isForPage(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
  if (event.target.type === "range") return !SLIDER_KEYS.has(event.key);
  // A closed dialog keeps the focus until the next frame.
  return !event.target.closest("input, select, textarea, dialog[open]");
}

/** Whether a keyboard is likely. Devices with only touch rarely have one. */
export const hasKeys = () => !matchMedia("(hover: none), (pointer: coarse)").matches;

/** The move of a key press; undefined for other keys. Letters may be capital. */
export const moveOf = (event) => KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];

/**
 * Call `onMove` for every swipe or drag on an element.
 *
 * @param {HTMLElement} element
 * @param {(move: number) => void} onMove
 */
export function onSwipe(element, onMove) {
  let start = null;
  element.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary || event.button || event.target.closest("button, a")) return; // these take their own clicks
    start = { x: event.clientX, y: event.clientY };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    if (!start || !event.isPrimary) return;
    const [right, down] = [event.clientX - start.x, event.clientY - start.y];
    if (Math.max(Math.abs(right), Math.abs(down)) < SWIPE_PIXELS) return;
    start = null; // one move for each swipe
    if (Math.abs(right) > Math.abs(down)) onMove(right > 0 ? 1 : 3);
    else onMove(down > 0 ? 2 : 0);
  });
  for (const ending of ["pointerup", "pointercancel"]) {
    element.addEventListener(ending, () => (start = null));
  }
}
