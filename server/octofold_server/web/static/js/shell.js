/** The frame around the tabs: theme, banner, and the dialog for a token. */

import { announce, byId } from "../viewer/dom.js";
import { store, stored } from "./storage.js";

const COPIED_MS = 2000; // how long a link shows that it was copied
const THEME_KEY = "octofold.theme";
const THEMES = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };

/** Let a button switch between the theme of the system, light and dark. */
export function watchTheme(button) {
  const names = Object.keys(THEMES);
  const set = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = THEMES[name];
    store(THEME_KEY, name);
  };
  const kept = stored(THEME_KEY);
  set(names.includes(kept) ? kept : "auto");
  button.addEventListener("click", () => {
    set(names[(names.indexOf(document.documentElement.dataset.theme) + 1) % names.length]);
    dispatchEvent(new Event("themechange"));
  });
}

/** Call `onFile` with every file that is dropped onto the page. */
export function onDrop(onFile) {
  const mark = (isOver) => document.body.classList.toggle("is-drop", isOver);
  addEventListener("dragover", (event) => {
    event.preventDefault();
    mark(true);
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? mark(false));
  addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    const [file] = event.dataTransfer.files;
    if (file) onFile(file);
  });
}

/** Show or hide the message that the server is gone. */
export function showGone(gone) {
  const banner = byId("banner");
  banner.hidden = !gone;
  if (gone) banner.textContent = "The server does not answer. The page continues when the server is back.";
}

/** Show an error message until the next one. */
export function showProblem(text) {
  byId("banner").hidden = false;
  byId("banner").textContent = text;
}

/**
 * Ask for a token.
 *
 * @param {boolean} wrong whether the server refused the last token
 * @returns {Promise<string|null>} the token; null if the user gives none
 */
export function askToken(wrong) {
  const dialog = byId("token-dialog");
  const field = byId("token-field");
  byId("token-title").textContent = wrong ? "The server refused this token" : "This server needs a token";
  field.value = dialog.returnValue = "";
  dialog.showModal();
  field.focus();
  return new Promise((resolve) => {
    dialog.addEventListener(
      "close",
      () => resolve(dialog.returnValue === "ok" ? field.value.trim() || null : null),
      { once: true },
    );
  });
}

/** Show how the page works. */
export const showHelp = () => byId("help").showModal();

/** Let a click on a link copy its address; without a clipboard, the browser follows the link. */
export function copyOnClick(link) {
  const copied = "Link copied";
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    try {
      await navigator.clipboard.writeText(link.href);
    } catch {
      location.assign(link.href); // the browser does not allow copying
      return;
    }
    const text = link.textContent;
    if (text === copied) return;
    link.textContent = copied;
    announce(copied);
    setTimeout(() => {
      if (link.textContent === copied) link.textContent = text;
    }, COPIED_MS);
  });
}
