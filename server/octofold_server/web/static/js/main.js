/** Starts the page: connects to the server, and shows one tab at a time. */

import { Models } from "./ask/models.js";
import { Gone, Server } from "./ask/server.js";
import { byId } from "../viewer/dom.js";
import { parseBoard } from "../viewer/board_text.js";
import { askToken, onDrop, showGone, showHelp, showProblem, watchTheme } from "./shell.js";
import { PlayTab } from "./tabs/play_tab.js";

/** Loaders of the tabs. All but the first are loaded when they are opened. */
const LATER = {
  duel: () => import("./tabs/duel_tab.js"),
  replay: () => import("./tabs/replay_tab.js"),
  practice: () => import("./tabs/practice_tab.js"),
  watch: () => import("./tabs/watch_tab.js"),
};

const tabs = {};
let current = null;

async function start() {
  watchTheme(byId("theme"));
  byId("help-open").addEventListener("click", showHelp);
  const source = new Server({ askToken, onState: showGone });
  const about = await firstAnswer(source);
  byId("about").textContent = `Octofold ${about.version}`;
  const models = new Models(source, about.models);
  models.watch().catch((error) => showProblem(error.message));
  const page = { source, models, handed: null };
  page.open = (games, title) => handToReplay(page, { games, title });
  onDrop((file) => handToReplay(page, { file }));
  tabs.play = new PlayTab(source, models, {
    board: boardOfAddress(),
    onStudy: (record) => page.open([record], "Your game"),
  });
  tabs.play.element = byId("tab-play");
  const show = () => showTab(page).catch((error) => showProblem(error.message));
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    if (current?.onKey?.(event)) event.preventDefault();
  });
  await show();
  document.body.dataset.ready = "true";
}

/** Request the server's version and models. If the server does not answer yet, wait for it. */
async function firstAnswer(source) {
  for (;;) {
    try {
      return await source.about();
    } catch (error) {
      if (error.status === 401) throw new Error("This server needs a token. Reload the page to enter it.");
      if (!(error instanceof Gone)) throw error;
      await source.whenBack();
    }
  }
}

/** Open the replay tab with games or a file. */
function handToReplay(page, handed) {
  page.handed = handed;
  if (location.hash === "#replay") dispatchEvent(new HashChangeEvent("hashchange"));
  location.hash = "#replay";
}

/** The board in the address `/?board=...`; undefined if there is none or it is invalid. */
function boardOfAddress() {
  const text = new URLSearchParams(location.search).get("board");
  if (text === null) return undefined;
  try {
    return parseBoard(text);
  } catch (error) {
    showProblem(error.message);
    return undefined;
  }
}

/** The parts of the address after `#`; the first tab if they are invalid. */
function addressParts() {
  try {
    return location.hash.slice(1).split("/").map(decodeURIComponent);
  } catch {
    return ["play"];
  }
}

/** Load a part of the page. If the server is gone, wait until it is back. */
async function loadPart(load, source) {
  try {
    return await load();
  } catch {
    await source.whenBack();
    return load().catch(() => {
      throw new Error("A part of the page cannot be loaded. Reload the page.");
    });
  }
}

/** Show the tab that the address names, such as `#replay/...`. */
async function showTab(page) {
  const [name, ...rest] = addressParts();
  if (name === "main" && current) return; // "Skip to the content" leads here
  const tab = Object.hasOwn(LATER, name) ? name : "play";
  if (!tabs[tab]) {
    const { open } = await loadPart(LATER[tab], page.source);
    if (addressParts()[0] !== name) return; // the user has opened another tab meanwhile
    tabs[tab] ??= open(byId(`tab-${tab}`), page);
  }
  if (current !== tabs[tab]) {
    current?.leave?.();
    current = tabs[tab];
  }
  for (const section of document.querySelectorAll("main > section")) {
    section.hidden = section.id !== `tab-${tab}`;
  }
  for (const link of document.querySelectorAll("nav.tabs a")) {
    if (link.dataset.tab === tab) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = tab === "play" ? "Octofold" : `${byId(`tab-${tab}`).getAttribute("aria-label")} · Octofold`;
  await current.enter?.(rest);
}

start().catch((error) => showProblem(error.message));
